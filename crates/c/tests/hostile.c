// Calls that a careful program does not make: each ends in an error, and nothing is lost or read twice.
//
//   hostile tokenizer.json
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffwd.h"

#define EXPECT(holds)                                                                              \
  do {                                                                                             \
    if (!(holds)) {                                                                                \
      fprintf(stderr, "line %d: %s\n", __LINE__, #holds);                                          \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

#define TEXT(text) text, sizeof text - 1

static ffwd_matcher *matcher_of(const ffwd_vocabulary *vocabulary, const char *kind, const char *text) {
  ffwd_constraint *constraint;
  ffwd_grammar *grammar;
  ffwd_matcher *matcher;
  EXPECT(ffwd_constraint_new(kind, text, strlen(text), NULL, &constraint, NULL) == FFWD_STATUS_OK);
  EXPECT(ffwd_grammar_new(vocabulary, constraint, &grammar, NULL) == FFWD_STATUS_OK);
  EXPECT(ffwd_matcher_new(grammar, &matcher, NULL) == FFWD_STATUS_OK);
  ffwd_constraint_free(constraint);
  ffwd_grammar_free(grammar);
  return matcher;
}

static void null_pointers(const ffwd_vocabulary *vocabulary, ffwd_matcher *matcher) {
  const ffwd_status bad = FFWD_STATUS_INVALID_ARGUMENT;
  ffwd_vocabulary *v = (ffwd_vocabulary *)1;
  ffwd_constraint *c;
  ffwd_grammar *g;
  ffwd_matcher *m;
  uint32_t words[4096], id = 0;
  uint8_t byte;
  size_t count;
  EXPECT(ffwd_vocabulary_from_file(NULL, &v, NULL) == bad && v == NULL);
  EXPECT(ffwd_vocabulary_from_file("x", NULL, NULL) == bad);
  EXPECT(ffwd_vocabulary_from_bytes(NULL, 5, &v, NULL) == bad);
  EXPECT(ffwd_vocabulary_from_bytes(NULL, 0, &v, NULL) == FFWD_STATUS_TOKENIZER);
  EXPECT(ffwd_vocabulary_from_tokens(NULL, &v, NULL) == bad);
  EXPECT(ffwd_vocabulary_with_ends(NULL, &id, 1, &v, NULL) == bad);
  EXPECT(ffwd_vocabulary_with_logits(NULL, 1, &v, NULL) == bad);
  EXPECT(ffwd_vocabulary_with_markers(NULL, TEXT("x"), &v, NULL) == bad);
  EXPECT(ffwd_vocabulary_logits(NULL) == 0 && ffwd_vocabulary_mask_words(NULL) == 0);
  EXPECT(!ffwd_vocabulary_has_tokenizer(NULL));
  EXPECT(ffwd_vocabulary_ends(NULL, &id, 1, &count, NULL) == bad);
  EXPECT(ffwd_vocabulary_ends(vocabulary, &id, 1, NULL, NULL) == bad);
  EXPECT(ffwd_vocabulary_token(NULL, 0, &byte, 1, &count, NULL) == bad);
  EXPECT(ffwd_vocabulary_encode(vocabulary, NULL, 3, &id, 1, &count, NULL) == bad);
  EXPECT(ffwd_constraint_new(NULL, TEXT("x"), NULL, &c, NULL) == bad && c == NULL);
  EXPECT(ffwd_constraint_new("regex", NULL, 1, NULL, &c, NULL) == bad);
  EXPECT(ffwd_constraint_then(NULL, NULL, &c, NULL) == bad);
  EXPECT(ffwd_constraint_or(NULL, NULL, &c, NULL) == bad && ffwd_constraint_and(NULL, NULL, &c, NULL) == bad);
  EXPECT(ffwd_constraint_not(NULL, &c, NULL) == bad && ffwd_constraint_after(NULL, TEXT("x"), &c, NULL) == bad);
  EXPECT(ffwd_grammar_new(vocabulary, NULL, &g, NULL) == bad && ffwd_grammar_warning(NULL, 0) == NULL);
  EXPECT(ffwd_grammar_warning_count(NULL) == 0 && ffwd_grammar_memory(NULL) == 0);
  EXPECT(ffwd_matcher_new(NULL, &m, NULL) == bad && ffwd_matcher_fork(NULL, &m, NULL) == bad);
  EXPECT(ffwd_matcher_fill(NULL, words, 4096, NULL) == bad && ffwd_matcher_fill(matcher, NULL, 4096, NULL) == bad);
  EXPECT(ffwd_matcher_accept(NULL, 0, NULL) == bad && ffwd_matcher_rollback(NULL, 0, NULL) == bad);
  EXPECT(ffwd_matcher_validate(matcher, NULL, 2, &count, NULL) == bad);
  EXPECT(ffwd_matcher_validate(matcher, NULL, 0, &count, NULL) == FFWD_STATUS_OK && count == 0);
  EXPECT(ffwd_matcher_validate(matcher, &id, 1, NULL, NULL) == bad);
  EXPECT(ffwd_matcher_reset(NULL, NULL) == bad && ffwd_matcher_accepted(NULL) == 0);
  EXPECT(!ffwd_matcher_may_end(NULL) && !ffwd_matcher_must_end(NULL) && !ffwd_matcher_is_finished(NULL));
  EXPECT(ffwd_matcher_forced_tokens(NULL, &id, 1, &count, NULL) == bad);
  EXPECT(ffwd_matcher_forced_tokens(matcher, &id, 1, NULL, NULL) == bad);
  EXPECT(ffwd_matcher_forced_draft(NULL, -1, &id, 1, &count, NULL) == bad);
  EXPECT(ffwd_matcher_forced_bytes(NULL, &byte, 1, &count, NULL) == bad);
  EXPECT(ffwd_error_text(NULL) == NULL && ffwd_error_pointer(NULL) == NULL && ffwd_error_line(NULL) == 0);
  ffwd_error_free(NULL);
  ffwd_vocabulary_free(NULL);
  ffwd_constraint_free(NULL);
  ffwd_grammar_free(NULL);
  ffwd_matcher_free(NULL);
}

static void lengths_and_ids(const ffwd_vocabulary *vocabulary, ffwd_matcher *matcher) {
  const ffwd_status bad = FFWD_STATUS_INVALID_ARGUMENT;
  const size_t words = ffwd_vocabulary_mask_words(vocabulary);
  const uint32_t width = (uint32_t)ffwd_vocabulary_logits(vocabulary);
  uint32_t *mask = malloc((words + 2) * sizeof *mask);
  ffwd_error *error;
  size_t count;
  mask[words + 1] = 7;
  EXPECT(ffwd_matcher_fill(matcher, mask, words - 1, &error) == bad);
  EXPECT(strstr(ffwd_error_message(error), "words") && !strcmp(ffwd_error_name(error), "invalid_argument"));
  ffwd_error_free(error);
  EXPECT(ffwd_matcher_fill(matcher, (uint32_t *)((char *)mask + 1), words, NULL) == bad);
  EXPECT(ffwd_matcher_fill(matcher, mask, SIZE_MAX / 2, NULL) == bad);
  EXPECT(ffwd_matcher_fill(matcher, mask, words + 1, &error) == FFWD_STATUS_OK && error == NULL);
  EXPECT(mask[words] == 0 && mask[words + 1] == 7);
  EXPECT(ffwd_matcher_accept(matcher, width, NULL) == bad && ffwd_matcher_accept(matcher, UINT32_MAX, NULL) == bad);
  uint32_t wrong[2] = {0, UINT32_MAX};
  EXPECT(ffwd_matcher_validate(matcher, wrong, 2, &count, NULL) == bad);
  EXPECT(ffwd_matcher_rollback(matcher, 1, NULL) == bad && ffwd_matcher_rollback(matcher, SIZE_MAX, NULL) == bad);
  EXPECT(ffwd_matcher_forced_draft(matcher, INT64_MAX, mask, words, &count, NULL) == bad);
  EXPECT(ffwd_matcher_forced_tokens(matcher, NULL, 0, &count, NULL) == FFWD_STATUS_OK && count > 1);
  EXPECT(ffwd_matcher_forced_tokens(matcher, mask, 1, &count, NULL) == FFWD_STATUS_OK && count > 1);
  EXPECT(ffwd_matcher_accept(matcher, mask[0], NULL) == FFWD_STATUS_OK && ffwd_matcher_accepted(matcher) == 1);
  EXPECT(ffwd_matcher_reset(matcher, NULL) == FFWD_STATUS_OK && ffwd_matcher_accepted(matcher) == 0);
  ffwd_vocabulary *other;
  EXPECT(ffwd_vocabulary_with_ends(vocabulary, wrong, 2, &other, NULL) == bad && !other);
  EXPECT(ffwd_vocabulary_with_logits(vocabulary, 1, &other, NULL) == FFWD_STATUS_TOKENIZER);
  EXPECT(ffwd_vocabulary_with_logits(vocabulary, SIZE_MAX, &other, NULL) == FFWD_STATUS_TOKENIZER);
  EXPECT(ffwd_vocabulary_with_logits(vocabulary, width + 100, &other, NULL) == FFWD_STATUS_OK);
  EXPECT(ffwd_vocabulary_logits(other) == width + 100);
  ffwd_vocabulary_free(other);
  free(mask);
}

static void wrong_texts(const ffwd_vocabulary *vocabulary) {
  ffwd_constraint *constraint;
  ffwd_grammar *grammar;
  ffwd_vocabulary *other;
  ffwd_error *error;
  EXPECT(ffwd_constraint_new("json_schema", TEXT("{\"properties\": {\"a\": {\"type\": \"strin\"}}}"), NULL,
                             &constraint, &error) == FFWD_STATUS_INVALID_SCHEMA);
  EXPECT(!constraint && !strcmp(ffwd_error_pointer(error), "/properties/a/type"));
  EXPECT(ffwd_error_status(error) == FFWD_STATUS_INVALID_SCHEMA && strstr(ffwd_error_text(error), "#/properties"));
  ffwd_error_free(error);
  EXPECT(ffwd_constraint_new("gbnf", TEXT("root ::= \"a\"\n  | nothing"), NULL, &constraint, &error) ==
         FFWD_STATUS_INVALID_PATTERN);
  EXPECT(ffwd_error_line(error) == 2 && ffwd_error_column(error) > 1 && !ffwd_error_pointer(error));
  ffwd_error_free(error);
  EXPECT(ffwd_constraint_new("json_shema", TEXT("{}"), NULL, &constraint, &error) == FFWD_STATUS_INVALID_OPTION);
  EXPECT(strstr(ffwd_error_hint(error), "json_schema") && strstr(ffwd_error_text(error), "hint: "));
  ffwd_error_free(error);
  EXPECT(ffwd_constraint_new("regex", TEXT("a"), "{\"strikt\": true}", &constraint, &error) ==
         FFWD_STATUS_INVALID_OPTION);
  ffwd_error_free(error);
  EXPECT(ffwd_constraint_new("regex", TEXT("a"), "[", &constraint, NULL) == FFWD_STATUS_INVALID_JSON);
  EXPECT(ffwd_constraint_new("tools", TEXT("[]"), NULL, &constraint, NULL) == FFWD_STATUS_INVALID_OPTION);
  EXPECT(ffwd_constraint_new("regex", TEXT("a\xff"), NULL, &constraint, NULL) == FFWD_STATUS_INVALID_ARGUMENT);
  EXPECT(ffwd_constraint_new("regex", TEXT("a\0("), NULL, &constraint, &error) == FFWD_STATUS_INVALID_PATTERN);
  EXPECT(strchr(ffwd_error_text(error), '('));
  ffwd_error_free(error);
  EXPECT(ffwd_constraint_new("regex", "a", SIZE_MAX, NULL, &constraint, NULL) == FFWD_STATUS_INVALID_ARGUMENT);
  EXPECT(ffwd_vocabulary_from_file("/nonexistent", &other, &error) == FFWD_STATUS_IO && !other);
  ffwd_error_free(error);
  EXPECT(ffwd_vocabulary_from_bytes((const uint8_t *)TEXT("GGUF\3\0\0\0"), &other, NULL) != FFWD_STATUS_OK);
  EXPECT(ffwd_vocabulary_from_bytes((const uint8_t *)TEXT("{}"), &other, NULL) == FFWD_STATUS_TOKENIZER);
  // A panic inside, which leaves no function.
  static const char broken[] =
      "{\"version\": \"1.0\", \"added_tokens\": [], \"post_processor\": {\"type\": \"TemplateProcessing\", "
      "\"single\": [{\"SpecialToken\": {\"id\": \"[X]\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", "
      "\"type_id\": 0}}], \"pair\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, {\"Sequence\": {\"id\": "
      "\"B\", \"type_id\": 1}}], \"special_tokens\": {}}, \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, "
      "\"merges\": []}}";
  EXPECT(ffwd_vocabulary_from_bytes((const uint8_t *)TEXT(broken), &other, NULL) == FFWD_STATUS_OK);
  ffwd_vocabulary_free(other);
  // Large and deep ones.
  const size_t size = 4 << 20;
  char *deep = malloc(size);
  memset(deep, '[', size);
  EXPECT(ffwd_constraint_new("json_schema", deep, size, NULL, &constraint, NULL) != FFWD_STATUS_OK);
  memset(deep, '(', size);
  EXPECT(ffwd_constraint_new("regex", deep, size, NULL, &constraint, NULL) != FFWD_STATUS_OK);
  EXPECT(ffwd_constraint_new("lark", deep, size, NULL, &constraint, NULL) != FFWD_STATUS_OK);
  free(deep);
  EXPECT(ffwd_constraint_new("regex", TEXT("(((a{1000}){1000}){1000}){1000}"), NULL, &constraint, NULL) !=
         FFWD_STATUS_OK);
  // A warning lives as long as its grammar.
  EXPECT(ffwd_constraint_new("json_schema", TEXT("{\"type\": \"string\", \"maxLenght\": 3}"), NULL,
                             &constraint, NULL) == FFWD_STATUS_OK);
  EXPECT(ffwd_grammar_new(vocabulary, constraint, &grammar, NULL) == FFWD_STATUS_OK);
  ffwd_constraint_free(constraint);
  EXPECT(ffwd_grammar_warning_count(grammar) == 1 && strstr(ffwd_grammar_warning(grammar, 0), "maxLength"));
  EXPECT(ffwd_grammar_warning(grammar, 1) == NULL && ffwd_grammar_memory(grammar) > 0);
  ffwd_grammar_free(grammar);
}

static void combined(const ffwd_vocabulary *vocabulary) {
  ffwd_constraint *a, *b, *made[5];
  EXPECT(ffwd_constraint_new("regex", TEXT("[a-z]+"), NULL, &a, NULL) == FFWD_STATUS_OK);
  EXPECT(ffwd_constraint_new("regex", TEXT("[a-c]+|-"), NULL, &b, NULL) == FFWD_STATUS_OK);
  EXPECT(ffwd_constraint_then(a, b, &made[0], NULL) == FFWD_STATUS_OK);
  EXPECT(ffwd_constraint_or(a, b, &made[1], NULL) == FFWD_STATUS_OK);
  EXPECT(ffwd_constraint_and(a, b, &made[2], NULL) == FFWD_STATUS_OK);
  EXPECT(ffwd_constraint_not(a, &made[3], NULL) == FFWD_STATUS_OK);
  EXPECT(ffwd_constraint_after(a, TEXT("</think>"), &made[4], NULL) == FFWD_STATUS_OK);
  ffwd_constraint_free(a);
  ffwd_constraint_free(b);
  // Whether "d", "-" and "ad" are texts of each.
  const char *texts[] = {"d", "-", "aa"};
  const bool want[5][3] = {{0, 0, 1}, {1, 1, 1}, {0, 0, 1}, {0, 1, 0}, {0, 0, 0}};
  for (int i = 0; i < 5; i++) {
    ffwd_grammar *grammar;
    EXPECT(ffwd_grammar_new(vocabulary, made[i], &grammar, NULL) == FFWD_STATUS_OK);
    ffwd_constraint_free(made[i]);
    for (int j = 0; j < 3; j++) {
      uint32_t tokens[8];
      size_t count, valid;
      ffwd_matcher *matcher;
      EXPECT(ffwd_matcher_new(grammar, &matcher, NULL) == FFWD_STATUS_OK);
      EXPECT(ffwd_vocabulary_encode(vocabulary, texts[j], strlen(texts[j]), tokens, 8, &count, NULL) ==
             FFWD_STATUS_OK);
      EXPECT(ffwd_matcher_validate(matcher, tokens, count, &valid, NULL) == FFWD_STATUS_OK);
      for (size_t k = 0; k < valid; k++) EXPECT(ffwd_matcher_accept(matcher, tokens[k], NULL) == FFWD_STATUS_OK);
      EXPECT((valid == count && ffwd_matcher_may_end(matcher)) == want[i][j]);
      ffwd_matcher_free(matcher);
    }
    ffwd_grammar_free(grammar);
  }
}

// A walk with pseudo-random choices. Returns a digest of its masks.
static uint64_t walk(ffwd_matcher *matcher, size_t words, uint32_t seed) {
  uint32_t *mask = malloc(words * sizeof *mask);
  uint64_t hash = 0;
  for (int step = 0; step < 60 && !ffwd_matcher_is_finished(matcher); step++) {
    EXPECT(ffwd_matcher_fill(matcher, mask, words, NULL) == FFWD_STATUS_OK);
    size_t set = 0;
    for (size_t i = 0; i < words * 32; i++) set += mask[i / 32] >> i % 32 & 1;
    EXPECT(set > 0);
    seed = seed * 1664525u + 1013904223u;
    size_t pick = (seed >> 8) % set, token = 0;
    for (size_t i = 0;; i++)
      if ((mask[i / 32] >> i % 32 & 1) && pick-- == 0) {
        token = i;
        break;
      }
    for (size_t i = 0; i < words; i++) hash = (hash ^ mask[i]) * 0x100000001b3u;
    EXPECT(ffwd_matcher_accept(matcher, (uint32_t)token, NULL) == FFWD_STATUS_OK);
  }
  free(mask);
  return hash;
}

static const char SCHEMA[] =
    "{\"type\": \"object\", \"properties\": {\"identifier\": {\"type\": \"string\", \"maxLength\": 30}, "
    "\"b\": {\"type\": \"array\", \"items\": {\"type\": \"number\"}}}, \"required\": [\"identifier\", \"b\"], "
    "\"additionalProperties\": false}";

struct work {
  ffwd_grammar *grammar;
  size_t words;
  uint32_t seed;
  uint64_t hash;
};

static void *thread(void *argument) {
  struct work *work = argument;
  for (uint32_t round = 0; round < 8; round++) {
    ffwd_matcher *matcher;
    EXPECT(ffwd_matcher_new(work->grammar, &matcher, NULL) == FFWD_STATUS_OK);
    work->hash ^= walk(matcher, work->words, work->seed + round);
    ffwd_matcher_free(matcher);
  }
  return NULL;
}

static void threads(const ffwd_vocabulary *vocabulary) {
  ffwd_constraint *constraint;
  ffwd_grammar *grammar, *alone;
  EXPECT(ffwd_constraint_new("json_schema", TEXT(SCHEMA), NULL, &constraint, NULL) == FFWD_STATUS_OK);
  EXPECT(ffwd_grammar_new(vocabulary, constraint, &grammar, NULL) == FFWD_STATUS_OK);
  EXPECT(ffwd_grammar_new(vocabulary, constraint, &alone, NULL) == FFWD_STATUS_OK);
  ffwd_constraint_free(constraint);
  struct work work[4];
  pthread_t running[4];
  for (uint32_t i = 0; i < 4; i++) {
    work[i] = (struct work){grammar, ffwd_vocabulary_mask_words(vocabulary), 100 * i, 0};
    EXPECT(pthread_create(&running[i], NULL, thread, &work[i]) == 0);
  }
  for (int i = 0; i < 4; i++) EXPECT(pthread_join(running[i], NULL) == 0);
  ffwd_grammar_free(grammar);
  for (uint32_t i = 0; i < 4; i++) {
    struct work again = {alone, work[i].words, 100 * i, 0};
    thread(&again);
    EXPECT(again.hash == work[i].hash);
  }
  ffwd_grammar_free(alone);
}

// A vocabulary of functions over another vocabulary.
struct user {
  const ffwd_vocabulary *vocabulary;
  int released, lies;
};

static int64_t token(void *user, uint32_t id, uint8_t *bytes, size_t capacity) {
  size_t count;
  if (((struct user *)user)->lies) return (int64_t)capacity + 1;
  EXPECT(ffwd_vocabulary_token(((struct user *)user)->vocabulary, id, bytes, capacity, &count, NULL) ==
         FFWD_STATUS_OK);
  return count ? (int64_t)count : -1;
}

static int64_t encode(void *user, const char *text, size_t length, uint32_t *ids, size_t capacity) {
  size_t count;
  if (((struct user *)user)->lies) return -1;
  EXPECT(ffwd_vocabulary_encode(((struct user *)user)->vocabulary, text, length, ids, capacity < 2 ? capacity : 2,
                                &count, NULL) == FFWD_STATUS_OK);
  if (count > 2 && count <= capacity)
    EXPECT(ffwd_vocabulary_encode(((struct user *)user)->vocabulary, text, length, ids, capacity, &count, NULL) ==
           FFWD_STATUS_OK);
  return (int64_t)count;
}

static void release(void *user) { ((struct user *)user)->released++; }

static void callbacks(const ffwd_vocabulary *vocabulary) {
  const size_t width = ffwd_vocabulary_logits(vocabulary), words = ffwd_vocabulary_mask_words(vocabulary);
  uint32_t ends[8], forced[64], want[64];
  size_t end_count, count, want_count;
  EXPECT(ffwd_vocabulary_ends(vocabulary, ends, 8, &end_count, NULL) == FFWD_STATUS_OK && end_count <= 8);
  struct user user = {vocabulary, 0, 0};
  ffwd_tokens tokens = {.count = width, .token = token, .ends = ends, .end_count = end_count,
                        .encode = encode, .user = &user, .release = release};
  ffwd_vocabulary *made;
  EXPECT(ffwd_vocabulary_from_tokens(&tokens, &made, NULL) == FFWD_STATUS_OK && ffwd_vocabulary_has_tokenizer(made));
  ffwd_matcher *one = matcher_of(vocabulary, "json_schema", SCHEMA), *other = matcher_of(made, "json_schema", SCHEMA);
  ffwd_vocabulary_free(made);
  EXPECT(user.released == 0);
  EXPECT(ffwd_matcher_forced_tokens(one, want, 64, &want_count, NULL) == FFWD_STATUS_OK && want_count > 2);
  EXPECT(ffwd_matcher_forced_tokens(other, forced, 64, &count, NULL) == FFWD_STATUS_OK);
  EXPECT(count == want_count && !memcmp(forced, want, count * sizeof *want));
  EXPECT(walk(one, words, 5) == walk(other, words, 5));
  ffwd_matcher_free(other);
  EXPECT(user.released == 1);

  // From arrays, without `encode`.
  const uint8_t **bytes = calloc(width, sizeof *bytes);
  size_t *lengths = calloc(width, sizeof *lengths);
  uint8_t *control = calloc(width, 1), *all = malloc(width * 300);
  for (size_t id = 0, at = 0; id < width; id++, at += 300) {
    EXPECT(ffwd_vocabulary_token(vocabulary, (uint32_t)id, all + at, 300, &lengths[id], NULL) == FFWD_STATUS_OK);
    bytes[id] = lengths[id] ? all + at : NULL;
    control[id] = !lengths[id];
  }
  ffwd_tokens arrays = {.count = width, .bytes = bytes, .lengths = lengths, .control = control, .ends = ends,
                        .end_count = end_count};
  EXPECT(ffwd_vocabulary_from_tokens(&arrays, &made, NULL) == FFWD_STATUS_OK && !ffwd_vocabulary_has_tokenizer(made));
  other = matcher_of(made, "json_schema", SCHEMA);
  EXPECT(ffwd_matcher_forced_tokens(other, forced, 64, &count, NULL) == FFWD_STATUS_OK && count > 2);
  EXPECT(ffwd_matcher_reset(one, NULL) == FFWD_STATUS_OK && walk(one, words, 6) == walk(other, words, 6));
  ffwd_vocabulary_free(made);
  ffwd_matcher_free(other);
  arrays.lengths = NULL;
  EXPECT(ffwd_vocabulary_from_tokens(&arrays, &made, NULL) == FFWD_STATUS_INVALID_ARGUMENT);
  // Refused before any function is asked: `token` fails for ids that do not exist.
  ffwd_tokens many = {.count = UINT32_MAX, .token = token, .user = &user};
  EXPECT(ffwd_vocabulary_from_tokens(&many, &made, NULL) == FFWD_STATUS_INVALID_ARGUMENT);
  arrays.count = SIZE_MAX;
  EXPECT(ffwd_vocabulary_from_tokens(&arrays, &made, NULL) == FFWD_STATUS_INVALID_ARGUMENT);
  arrays.count = 0;
  EXPECT(ffwd_vocabulary_from_tokens(&arrays, &made, NULL) != FFWD_STATUS_OK);
  free(bytes);
  free(lengths);
  free(control);
  free(all);

  // Functions that do not keep to the rules.
  EXPECT(ffwd_vocabulary_from_tokens(&tokens, &made, NULL) == FFWD_STATUS_OK);
  other = matcher_of(made, "json_schema", SCHEMA);
  user.lies = 1;
  EXPECT(ffwd_vocabulary_encode(made, TEXT("a"), forced, 64, &count, NULL) == FFWD_STATUS_TOKENIZER);
  EXPECT(ffwd_matcher_forced_tokens(other, forced, 64, &count, NULL) == FFWD_STATUS_OK);
  ffwd_vocabulary_free(made);
  ffwd_matcher_free(other);
  EXPECT(user.released == 2);
  EXPECT(ffwd_vocabulary_from_tokens(&tokens, &made, NULL) == FFWD_STATUS_INVALID_ARGUMENT && user.released == 3);
  ffwd_matcher_free(one);
}

int main(int argc, char **argv) {
  EXPECT(argc == 2 && !strcmp(ffwd_version(), FFWD_VERSION));
  ffwd_vocabulary *vocabulary;
  EXPECT(ffwd_vocabulary_from_file(argv[1], &vocabulary, NULL) == FFWD_STATUS_OK);
  ffwd_matcher *matcher = matcher_of(vocabulary, "json_schema", SCHEMA);
  null_pointers(vocabulary, matcher);
  lengths_and_ids(vocabulary, matcher);
  wrong_texts(vocabulary);
  combined(vocabulary);
  threads(vocabulary);
  callbacks(vocabulary);
  // A matcher outlives what it was made from.
  const size_t words = ffwd_vocabulary_mask_words(vocabulary);
  ffwd_vocabulary_free(vocabulary);
  walk(matcher, words, 1);
  ffwd_matcher_free(matcher);
  printf("ok\n");
  return 0;
}
