// Replays a script of calls and compares every mask and answer with those of the Rust engine.
//
//   replay SCRIPT
//
// A line is a command with numbers; texts follow their line. tests/replay.rs writes scripts.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffwd.h"

static size_t line_number;

static void fail(const char *what) {
  fprintf(stderr, "line %zu: %s\n", line_number, what);
  exit(1);
}

static void expect(bool holds, const char *what) {
  if (!holds) fail(what);
}

static void check(ffwd_error *error) {
  if (!error) return;
  fail(ffwd_error_text(error));
}

// FNV-1a over the words of a mask.
static uint64_t digest(const uint32_t *words, size_t count) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < count; i++) hash = (hash ^ words[i]) * 0x100000001b3u;
  return hash;
}

static char *read_text(FILE *script, size_t length) {
  char *text = malloc(length + 1);
  expect(text && fread(text, 1, length, script) == length, "the script ends early");
  text[length] = 0;
  return text;
}

// Reads numbers up to the end of a line.
static size_t read_tokens(FILE *script, uint32_t *tokens, size_t count) {
  for (size_t i = 0; i < count; i++) expect(fscanf(script, "%" SCNu32, &tokens[i]) == 1, "no token");
  return count;
}

int main(int argc, char **argv) {
  FILE *script = argc == 2 ? fopen(argv[1], "rb") : NULL;
  expect(script != NULL, "usage: replay SCRIPT");
  ffwd_vocabulary *vocabulary = NULL;
  ffwd_matcher *matcher = NULL;
  ffwd_error *error = NULL;
  uint32_t *words = NULL, *tokens = malloc(sizeof(uint32_t) << 21), *forced = malloc(sizeof(uint32_t) << 21);
  size_t word_count = 0, masks = 0;
  char command;
  while (fscanf(script, " %c", &command) == 1) {
    line_number++;
    size_t length = 0, more = 0, count = 0;
    uint64_t want;
    unsigned may, must, finished;
    uint32_t token;
    switch (command) {
    case 'V': { // vocabulary: length, path
      expect(fscanf(script, "%zu", &length) == 1 && fgetc(script) == '\n', "no length");
      char *path = read_text(script, length);
      ffwd_vocabulary_from_file(path, &vocabulary, &error);
      check(error);
      free(path);
      word_count = ffwd_vocabulary_mask_words(vocabulary);
      words = malloc(word_count * sizeof *words);
      break;
    }
    case 'C': { // constraint: kind, length of the text and of the options, both
      char kind[32];
      expect(fscanf(script, "%31s %zu %zu", kind, &length, &more) == 3 && fgetc(script) == '\n', "no kind");
      char *text = read_text(script, length), *options = read_text(script, more);
      ffwd_constraint *constraint;
      ffwd_grammar *grammar;
      ffwd_constraint_new(kind, text, length, options, &constraint, &error);
      check(error);
      ffwd_grammar_new(vocabulary, constraint, &grammar, &error);
      check(error);
      ffwd_matcher_free(matcher);
      ffwd_matcher_new(grammar, &matcher, &error);
      check(error);
      ffwd_grammar_free(grammar);
      ffwd_constraint_free(constraint);
      free(text);
      free(options);
      break;
    }
    case 'm': // mask: digest
      expect(fscanf(script, "%" SCNx64, &want) == 1, "no digest");
      ffwd_matcher_fill(matcher, words, word_count, &error);
      check(error);
      expect(digest(words, word_count) == want, "another mask");
      masks++;
      break;
    case 'a': // a legal token
      expect(fscanf(script, "%" SCNu32, &token) == 1, "no token");
      ffwd_matcher_accept(matcher, token, &error);
      check(error);
      break;
    case 'x': // a token that is not legal
      expect(fscanf(script, "%" SCNu32, &token) == 1, "no token");
      expect(ffwd_matcher_accept(matcher, token, NULL) == FFWD_STATUS_ILLEGAL_TOKEN, "the token is legal");
      break;
    case 'r': // rollback: number of tokens
      expect(fscanf(script, "%zu", &count) == 1, "no number");
      ffwd_matcher_rollback(matcher, count, &error);
      check(error);
      break;
    case 'v': { // validate: legal ones, number, tokens
      size_t legal, valid;
      expect(fscanf(script, "%zu %zu", &legal, &count) == 2, "no number");
      read_tokens(script, tokens, count);
      ffwd_matcher_validate(matcher, tokens, count, &valid, &error);
      check(error);
      expect(valid == legal, "another number of legal tokens");
      break;
    }
    case 'f': { // forced tokens: number, tokens
      size_t found;
      expect(fscanf(script, "%zu", &count) == 1, "no number");
      read_tokens(script, tokens, count);
      ffwd_matcher_forced_tokens(matcher, forced, (size_t)1 << 21, &found, &error);
      check(error);
      expect(found == count && !memcmp(forced, tokens, count * sizeof *tokens), "other forced tokens");
      break;
    }
    case 'k': { // go on with a fork
      ffwd_matcher *fork;
      ffwd_matcher_fork(matcher, &fork, &error);
      check(error);
      ffwd_matcher_free(matcher);
      matcher = fork;
      break;
    }
    case 'z': // reset
      ffwd_matcher_reset(matcher, &error);
      check(error);
      break;
    case 'e': // may end, must end, is finished
      expect(fscanf(script, "%u %u %u", &may, &must, &finished) == 3, "no flags");
      expect(ffwd_matcher_may_end(matcher) == may && ffwd_matcher_must_end(matcher) == must &&
                 ffwd_matcher_is_finished(matcher) == finished,
             "another end");
      break;
    default:
      fail("an unknown command");
    }
  }
  fclose(script);
  free(words);
  free(tokens);
  free(forced);
  ffwd_vocabulary_free(vocabulary);
  ffwd_matcher_free(matcher);
  printf("%zu masks\n", masks);
  return 0;
}
