// Prints a record of a JSON Schema. A random number generator stands for the model.
//
//   record tokenizer.json schema.json
#include <stdio.h>
#include <stdlib.h>

#include "ffwd.h"

static void fail(ffwd_error *error) {
  if (!error) return;
  fprintf(stderr, "%s\n", ffwd_error_text(error));
  ffwd_error_free(error);
  exit(1);
}

static char *read_file(const char *path, size_t *length) {
  FILE *file = fopen(path, "rb");
  char *text = malloc(1 << 20);
  if (!file || !text) {
    fprintf(stderr, "cannot read %s\n", path);
    exit(1);
  }
  *length = fread(text, 1, 1 << 20, file);
  fclose(file);
  return text;
}

// The model: the best of random logits, among the tokens whose bit is set.
static uint32_t sample(const uint32_t *words, size_t logits) {
  uint32_t best = 0;
  int highest = -1;
  for (uint32_t token = 0; token < logits; token++) {
    const int logit = rand();
    if ((words[token / 32] >> token % 32 & 1) && logit > highest) {
      highest = logit;
      best = token;
    }
  }
  return best;
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: record tokenizer.json schema.json\n");
    return 2;
  }
  ffwd_error *error = NULL;
  ffwd_vocabulary *vocabulary;
  ffwd_vocabulary_from_file(argv[1], &vocabulary, &error);
  fail(error);
  size_t length;
  char *schema = read_file(argv[2], &length);
  ffwd_constraint *constraint;
  ffwd_constraint_new("json_schema", schema, length, NULL, &constraint, &error);
  fail(error);
  ffwd_grammar *grammar;
  ffwd_grammar_new(vocabulary, constraint, &grammar, &error);
  fail(error);
  ffwd_matcher *matcher;
  ffwd_matcher_new(grammar, &matcher, &error);
  fail(error);

  const size_t words = ffwd_vocabulary_mask_words(vocabulary), logits = ffwd_vocabulary_logits(vocabulary);
  uint32_t *mask = malloc(words * sizeof *mask);
  while (!ffwd_matcher_must_end(matcher)) {
    uint32_t tokens[64];
    size_t count;
    // What the schema leaves no choice about needs no model.
    ffwd_matcher_forced_tokens(matcher, tokens, 64, &count, &error);
    fail(error);
    if (count > 64) count = 64;
    if (count == 0) {
      ffwd_matcher_fill(matcher, mask, words, &error);
      fail(error);
      tokens[count++] = sample(mask, logits);
    }
    for (size_t i = 0; i < count && !ffwd_matcher_is_finished(matcher); i++) {
      uint8_t bytes[256];
      size_t size;
      ffwd_matcher_accept(matcher, tokens[i], &error);
      fail(error);
      ffwd_vocabulary_token(vocabulary, tokens[i], bytes, sizeof bytes, &size, &error);
      fail(error);
      fwrite(bytes, 1, size < sizeof bytes ? size : sizeof bytes, stdout);
    }
  }
  printf("\n");
  free(mask);
  free(schema);
  ffwd_matcher_free(matcher);
  ffwd_grammar_free(grammar);
  ffwd_constraint_free(constraint);
  ffwd_vocabulary_free(vocabulary);
  return 0;
}
