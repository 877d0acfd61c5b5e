// The constraint engine of ffwd for C and C++: which tokens keep an output of a language model within
// a JSON Schema, a grammar, a regular expression or tool calls.
//
// A vocabulary and a constraint are compiled to a grammar; a matcher follows one generation:
//
//   ffwd_vocabulary_from_file -> ffwd_constraint_new -> ffwd_grammar_new -> ffwd_matcher_new
//   then for each token: ffwd_matcher_fill, sample among the set bits, ffwd_matcher_accept
//
// Errors. A function that can fail returns a status and takes a place for an error object, which may be
// null. It is set to null on success. The caller frees the object with ffwd_error_free.
//
// Ownership. What a function writes to `out` belongs to the caller, who frees it with the function of
// its type; on failure it is null. Objects keep what they need of others, so the order in which they
// are freed does not matter. Arguments are read during the call only, but for the functions of
// ffwd_tokens. A pointer must lead to as many values as its length says; null is allowed for length 0.
// A null object is a failure, or 0, or false. Texts are UTF-8 with a length, unless a comment says that
// they end with a zero byte.
//
// Room. A function that writes a list takes a place with `capacity` values and writes as many as fit;
// `count` is how many there are, so a call with capacity 0 asks for the size.
//
// Threads. Vocabularies, constraints, grammars and errors can be used from several threads at the same
// time. A matcher is used by one thread at a time; different matchers of a grammar are independent.
// An object may be freed once no other thread uses it.
//
// Versions. Objects are opaque. While the name of the shared library ends with .so.0, functions and
// values of ffwd_status may be added; those here keep their meaning.
//
// Generated from crates/c/src. SPDX-License-Identifier: MIT OR Apache-2.0


#ifndef FFWD_H
#define FFWD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FFWD_VERSION "0.1.0"

// Result of a function. Numbers keep their meaning between versions; new ones may be added.
typedef enum {
  // Done.
  FFWD_STATUS_OK = 0,
  // A null pointer, a buffer that is too short, an id or a number out of range, text that is not
  // UTF-8.
  FFWD_STATUS_INVALID_ARGUMENT = 1,
  // A fault of the library: a panic that was caught. Please report it.
  FFWD_STATUS_INTERNAL = 2,
  // A schema, a tool list or options that are not JSON.
  FFWD_STATUS_INVALID_JSON = 3,
  // A schema that breaks the rules of JSON Schema.
  FFWD_STATUS_INVALID_SCHEMA = 4,
  // A feature that is not implemented; it is refused, never ignored in silence.
  FFWD_STATUS_UNSUPPORTED = 5,
  // A constraint that no output satisfies.
  FFWD_STATUS_UNSATISFIABLE = 6,
  // A regular expression, a pattern or a grammar that does not parse.
  FFWD_STATUS_INVALID_PATTERN = 7,
  // A limit was exceeded; the message names it.
  FFWD_STATUS_TOO_COMPLEX = 8,
  // A list of labels that is empty, ambiguous or not usable with the tokenizer.
  FFWD_STATUS_INVALID_LABELS = 9,
  // A token that the constraint does not allow at this point.
  FFWD_STATUS_ILLEGAL_TOKEN = 10,
  // A tokenizer that cannot be loaded or used.
  FFWD_STATUS_TOKENIZER = 11,
  // A file that cannot be read.
  FFWD_STATUS_IO = 12,
  // A kind that does not exist, an option that the kind does not have, or one with a value out of
  // range.
  FFWD_STATUS_INVALID_OPTION = 13,
  // Another failure; `ffwd_error_name` names it.
  FFWD_STATUS_OTHER = 14,
} ffwd_status;

// What an output may be: parsed, checked, and not yet bound to a vocabulary. Immutable.
typedef struct ffwd_constraint ffwd_constraint;

// What went wrong, where, and what to do about it.
//
// Its texts are UTF-8, end with a zero byte, and live as long as the object.
typedef struct ffwd_error ffwd_error;

// A constraint compiled for a vocabulary. Immutable to the caller; masks that one generation computed
// are there for the next ones, on all threads.
typedef struct ffwd_grammar ffwd_grammar;

// The state of one generation. One thread at a time uses it.
//
// There are no error states: what is refused changes nothing.
typedef struct ffwd_matcher ffwd_matcher;

// The tokens of a model's tokenizer, prepared for constraints. Immutable.
//
// Make one for a model and keep it: what is compiled for it shares tables.
typedef struct ffwd_vocabulary ffwd_vocabulary;

// A vocabulary that the caller describes: the bytes of each token, and how texts are tokenised.
//
// The bytes come from two arrays, or from the function `token`. Without `encode` the bytes of the
// tokens are all that is known: masks are exact all the same, and forced tokens are the longest ones
// that fit. The functions may be called from any thread that uses the vocabulary or something made
// from it, from several at the same time. They may not throw, and may not use what is made of
// them. Fields that are not used are null or 0.
typedef struct {
  // Number of tokens. Their ids are 0 to `count - 1`.
  size_t count;
  // The bytes of each token, or null if `token` is given. A null element is a token without bytes,
  // which is never text.
  const uint8_t *const *bytes;
  // The number of bytes of each token.
  const size_t *lengths;
  // For each token 1 if it is a control token, which is never text, otherwise 0. Null if there are
  // no control tokens but the end tokens.
  const uint8_t *control;
  // Writes the bytes of a token, at most `capacity`, and returns their number, which may be larger:
  // it is then called again with more room. Returns a negative number for a control token. It is
  // called by `ffwd_vocabulary_from_tokens` only.
  int64_t (*token)(void *user, uint32_t id, uint8_t *bytes, size_t capacity);
  // The ids that end a generation.
  const uint32_t *ends;
  // The number of `ends`.
  size_t end_count;
  // Tokenises a text (UTF-8, without a zero byte at its end) as the model's tokenizer does, without
  // tokens before or after it, and with no meaning of the names of control tokens. Writes at most
  // `capacity` ids and returns their number, which may be larger: it is then called again with more
  // room. Returns a negative number if it cannot. May be null.
  int64_t (*encode)(void *user, const char *text, size_t length, uint32_t *ids, size_t capacity);
  // What the functions get as their first argument.
  void *user;
  // Called once when nothing needs `user` any more, also if the vocabulary cannot be made. May be
  // null.
  void (*release)(void *user);
} ffwd_tokens;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the status of the failure.
ffwd_status ffwd_error_status(const ffwd_error *error);

// Returns the stable name of the kind of failure, such as `invalid_schema`.
const char *ffwd_error_name(const ffwd_error *error);

// Returns the message: one sentence without location and hint.
const char *ffwd_error_message(const ffwd_error *error);

// Returns everything in some lines, for people: kind, message, location, hint.
const char *ffwd_error_text(const ffwd_error *error);

// Returns the JSON pointer of the location in a JSON document, or null. The empty text is the whole
// document.
const char *ffwd_error_pointer(const ffwd_error *error);

// Returns the line of the location in a text, from 1, or 0.
size_t ffwd_error_line(const ffwd_error *error);

// Returns the column of the location in a text, in characters from 1, or 0.
size_t ffwd_error_column(const ffwd_error *error);

// Returns what to do about it, or null.
const char *ffwd_error_hint(const ffwd_error *error);

// Frees an error. Null has no effect.
void ffwd_error_free(ffwd_error *error);

// Returns the version of the library, such as `0.1.0`.
const char *ffwd_version(void);

// Reads a tokenizer: a `tokenizer.json`, a `tekken.json`, a SentencePiece model (`tokenizer.model`),
// or the metadata of a GGUF file. The content decides, not the name.
//
// End tokens are those of the GGUF file; otherwise those of `generation_config.json` or
// `tokenizer_config.json` in the same folder; otherwise found by the usual names.
ffwd_status ffwd_vocabulary_from_file(const char *path,
                                      ffwd_vocabulary **out,
                                      ffwd_error **error);

// Reads the content of such a file. The bytes are not needed afterwards.
ffwd_status ffwd_vocabulary_from_bytes(const uint8_t *bytes,
                                       size_t length,
                                       ffwd_vocabulary **out,
                                       ffwd_error **error);

// Makes a vocabulary that the caller describes. The arrays are not needed afterwards; the functions
// `encode` and `release` are, until everything that was made from the vocabulary is freed.
ffwd_status ffwd_vocabulary_from_tokens(const ffwd_tokens *tokens,
                                        ffwd_vocabulary **out,
                                        ffwd_error **error);

// Makes the same vocabulary with other end tokens. Its tables are shared.
ffwd_status ffwd_vocabulary_with_ends(const ffwd_vocabulary *vocabulary,
                                      const uint32_t *ends,
                                      size_t count,
                                      ffwd_vocabulary **out,
                                      ffwd_error **error);

// Makes the same vocabulary for logits of another width, in tokens: models often pad them. Ids
// without a token are never allowed.
ffwd_status ffwd_vocabulary_with_logits(const ffwd_vocabulary *vocabulary,
                                        size_t width,
                                        ffwd_vocabulary **out,
                                        ffwd_error **error);

// Makes the vocabulary in which the special tokens that occur in a text are ordinary text, such as
// `[TOOL_CALLS]` or `</think>` for constraints that name them. End tokens stay special.
ffwd_status ffwd_vocabulary_with_markers(const ffwd_vocabulary *vocabulary,
                                         const char *text,
                                         size_t length,
                                         ffwd_vocabulary **out,
                                         ffwd_error **error);

// Returns the width of the logits, in tokens: ids are below it. 0 for null.
size_t ffwd_vocabulary_logits(const ffwd_vocabulary *vocabulary);

// Returns the number of 32-bit words of a mask: a bit for each token of the logits. 0 for null.
size_t ffwd_vocabulary_mask_words(const ffwd_vocabulary *vocabulary);

// Returns true if texts are tokenised as the model's tokenizer does. False if only the bytes of the
// tokens are known: forced tokens are then the longest that fit.
bool ffwd_vocabulary_has_tokenizer(const ffwd_vocabulary *vocabulary);

// Writes the ids that end a generation, as many as there is room for; `count` is their number.
ffwd_status ffwd_vocabulary_ends(const ffwd_vocabulary *vocabulary,
                                 uint32_t *ids,
                                 size_t capacity,
                                 size_t *count,
                                 ffwd_error **error);

// Writes the bytes of a token, as many as there is room for; `count` is their number, which is 0 for
// tokens that are never text.
ffwd_status ffwd_vocabulary_token(const ffwd_vocabulary *vocabulary,
                                  uint32_t token,
                                  uint8_t *bytes,
                                  size_t capacity,
                                  size_t *count,
                                  ffwd_error **error);

// Tokenises a text, in which special tokens have no meaning. Writes as many ids as there is room for;
// `count` is their number.
ffwd_status ffwd_vocabulary_encode(const ffwd_vocabulary *vocabulary,
                                   const char *text,
                                   size_t length,
                                   uint32_t *ids,
                                   size_t capacity,
                                   size_t *count,
                                   ffwd_error **error);

// Frees a vocabulary. Null has no effect. What was made from it keeps working.
void ffwd_vocabulary_free(ffwd_vocabulary *vocabulary);

// Parses a constraint.
//
// `kind` says what `text` is:
// - `json_schema`: a JSON Schema. `json_object`: any JSON object; `text` is empty.
// - `regex`: a regular expression that the whole output matches. `pattern`: an element pattern.
// - `choice`: a JSON array of texts, one of which is the output.
// - `gbnf`: a grammar as llama.cpp and XGrammar have them. `lark`: one in a subset of Lark's notation.
//   `ebnf`: one of both, found out.
// - `structural_tag`: a structural tag (JSON). `tools`: a list of functions (JSON), as in a request of
//   OpenAI's API; the option `style` is required.
// - `substring`: a text of which the output is a span.
// - `labels`: a JSON array or tree of labels. `token_masks`: a JSON array of the ids of each position.
//   `token_fsm`: `{"transitions": [[from, [ids], to], ...], "accept": [states]}`.
//
// `options` is null or a JSON object with the options of the kind, which are those of Python's
// `ffwd.Constraint`: `{"whitespace": "single_space", "strict": true}`. Both names end with a zero byte.
ffwd_status ffwd_constraint_new(const char *kind,
                                const char *text,
                                size_t length,
                                const char *options,
                                ffwd_constraint **out,
                                ffwd_error **error);

// Makes the constraint of a text of `first`, followed by one of `second`.
ffwd_status ffwd_constraint_then(const ffwd_constraint *first,
                                 const ffwd_constraint *second,
                                 ffwd_constraint **out,
                                 ffwd_error **error);

// Makes the constraint of a text of `first`, or of `second`.
ffwd_status ffwd_constraint_or(const ffwd_constraint *first,
                               const ffwd_constraint *second,
                               ffwd_constraint **out,
                               ffwd_error **error);

// Makes the constraint of the texts that satisfy both. Neither may have JSON values or rules.
ffwd_status ffwd_constraint_and(const ffwd_constraint *first,
                                const ffwd_constraint *second,
                                ffwd_constraint **out,
                                ffwd_error **error);

// Makes the constraint of the texts that do not satisfy this one, which may not have JSON values or
// rules.
ffwd_status ffwd_constraint_not(const ffwd_constraint *constraint,
                                ffwd_constraint **out,
                                ffwd_error **error);

// Makes the constraint of any text up to the first `marker`, the marker, and then a text of this one:
// for answers after thinking.
ffwd_status ffwd_constraint_after(const ffwd_constraint *constraint,
                                  const char *marker,
                                  size_t length,
                                  ffwd_constraint **out,
                                  ffwd_error **error);

// Frees a constraint. Null has no effect.
void ffwd_constraint_free(ffwd_constraint *constraint);

// Compiles a constraint for a vocabulary. Neither is needed afterwards.
ffwd_status ffwd_grammar_new(const ffwd_vocabulary *vocabulary,
                             const ffwd_constraint *constraint,
                             ffwd_grammar **out,
                             ffwd_error **error);

// Returns the number of warnings: what the constraint means differently from what its author may
// expect, such as an unknown keyword.
size_t ffwd_grammar_warning_count(const ffwd_grammar *grammar);

// Returns a warning as `#POINTER: MESSAGE` or a message alone, or null behind the last one. The text
// lives as long as the grammar.
const char *ffwd_grammar_warning(const ffwd_grammar *grammar,
                                 size_t index);

// Returns the bytes of the tables of this grammar, without those that all grammars share.
size_t ffwd_grammar_memory(const ffwd_grammar *grammar);

// Frees a grammar. Null has no effect. Its matchers keep working.
void ffwd_grammar_free(ffwd_grammar *grammar);

// Makes a matcher at the start of an output. The grammar is not needed afterwards.
ffwd_status ffwd_matcher_new(const ffwd_grammar *grammar, ffwd_matcher **out, ffwd_error **error);

// Makes an independent copy. It is cheap, whatever the length of the output.
ffwd_status ffwd_matcher_fork(const ffwd_matcher *matcher, ffwd_matcher **out, ffwd_error **error);

// Writes the tokens that may come next: bit `t % 32` of word `t / 32` is set if token `t` keeps the
// output completable. All of the `count` words are overwritten; there must be at least
// `ffwd_vocabulary_mask_words`. Once an end token was accepted, only the end tokens are set.
ffwd_status ffwd_matcher_fill(ffwd_matcher *matcher,
                              uint32_t *words,
                              size_t count,
                              ffwd_error **error);

// Advances by one token, which may be an end token. `FFWD_STATUS_ILLEGAL_TOKEN` if it may not come
// next.
ffwd_status ffwd_matcher_accept(ffwd_matcher *matcher, uint32_t token, ffwd_error **error);

// Writes how many leading tokens could be accepted one after the other. The state does not change.
ffwd_status ffwd_matcher_validate(ffwd_matcher *matcher,
                                  const uint32_t *tokens,
                                  size_t count,
                                  size_t *valid,
                                  ffwd_error **error);

// Removes the last `count` tokens that were accepted; an end token counts as one.
ffwd_status ffwd_matcher_rollback(ffwd_matcher *matcher, size_t count, ffwd_error **error);

// Returns to the start of the output.
ffwd_status ffwd_matcher_reset(ffwd_matcher *matcher, ffwd_error **error);

// Returns the number of accepted tokens, an end token included: the most that can be rolled back.
size_t ffwd_matcher_accepted(const ffwd_matcher *matcher);

// Returns true if the output may end here: an end token is legal.
bool ffwd_matcher_may_end(const ffwd_matcher *matcher);

// Returns true if the output must end here: nothing but an end token is legal.
bool ffwd_matcher_must_end(const ffwd_matcher *matcher);

// Returns true if an end token was accepted. False again once it is rolled back.
bool ffwd_matcher_is_finished(const ffwd_matcher *matcher);

// Writes the tokens that the constraint leaves no choice about, as the model's tokenizer writes them,
// up to the last boundary that no continuation can move. So they can be appended to the output without
// running the model on each. As many as there is room for; `count` is their number. The matcher does
// not advance.
ffwd_status ffwd_matcher_forced_tokens(ffwd_matcher *matcher,
                                       uint32_t *tokens,
                                       size_t capacity,
                                       size_t *count,
                                       ffwd_error **error);

// Writes the first tokens of the forced run, at most `capacity`: the best guess at those of the model,
// for a draft that the model verifies. `last` is the token in front of the run, with which the
// tokenizer may join its start, or a negative number. The cost depends on `capacity`, not on the run.
ffwd_status ffwd_matcher_forced_draft(const ffwd_matcher *matcher,
                                      int64_t last,
                                      uint32_t *tokens,
                                      size_t capacity,
                                      size_t *count,
                                      ffwd_error **error);

// Writes the bytes that the constraint leaves no choice about, as many as there is room for; `count`
// is their number.
ffwd_status ffwd_matcher_forced_bytes(ffwd_matcher *matcher,
                                      uint8_t *bytes,
                                      size_t capacity,
                                      size_t *count,
                                      ffwd_error **error);

// Frees a matcher. Null has no effect.
void ffwd_matcher_free(ffwd_matcher *matcher);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FFWD_H */
