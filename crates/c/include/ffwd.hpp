// The constraint engine of ffwd for C++17: objects that free themselves, faults as exceptions.
// ffwd.h says what the functions do. SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef FFWD_HPP
#define FFWD_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "ffwd.h"

namespace ffwd {

using Tokens = std::vector<std::uint32_t>;

// A fault. what() is everything, for people; pointer and hint may be empty, line and column 0.
struct Error : std::runtime_error {
  explicit Error(const ffwd_error *error)
      : std::runtime_error(ffwd_error_text(error)), status(ffwd_error_status(error)),
        message(ffwd_error_message(error)), pointer(text(ffwd_error_pointer(error))),
        hint(text(ffwd_error_hint(error))), line(ffwd_error_line(error)),
        column(ffwd_error_column(error)) {}
  ffwd_status status;
  std::string message, pointer, hint;
  std::size_t line, column;

private:
  static std::string text(const char *text) { return text ? text : ""; }
};

namespace detail {

template <auto Free> struct Deleter {
  template <class T> void operator()(T *object) const { Free(object); }
};
template <class T, auto Free> using Owned = std::unique_ptr<T, Deleter<Free>>;

// Calls a function with a place for its error, which is thrown.
template <class Call> void check(Call call) {
  ffwd_error *error = nullptr;
  call(&error);
  Owned<ffwd_error, ffwd_error_free> owned(error);
  if (error) throw Error(error);
}

// Calls a function that makes an object.
template <class T, class Call> T *make(Call call) {
  T *out = nullptr;
  check([&](ffwd_error **error) { call(&out, error); });
  return out;
}

// Calls a function that writes a list twice: for its size, and for its values.
template <class T, class Call> std::vector<T> list(Call call) {
  std::size_t count = 0;
  check([&](ffwd_error **error) { call(static_cast<T *>(nullptr), 0, &count, error); });
  std::vector<T> values(count);
  check([&](ffwd_error **error) { call(values.data(), values.size(), &count, error); });
  return values;
}

} // namespace detail

class Vocabulary : public detail::Owned<ffwd_vocabulary, ffwd_vocabulary_free> {
public:
  explicit Vocabulary(ffwd_vocabulary *object) : unique_ptr(object) {}
  explicit Vocabulary(const char *path)
      : Vocabulary(make([&](auto out, auto error) { ffwd_vocabulary_from_file(path, out, error); })) {}
  explicit Vocabulary(const ffwd_tokens &tokens)
      : Vocabulary(make([&](auto out, auto error) { ffwd_vocabulary_from_tokens(&tokens, out, error); })) {}
  Vocabulary with_ends(const Tokens &ends) const {
    return Vocabulary(make([&](auto out, auto error) {
      ffwd_vocabulary_with_ends(get(), ends.data(), ends.size(), out, error);
    }));
  }
  Vocabulary with_logits(std::size_t width) const {
    return Vocabulary(
        make([&](auto out, auto error) { ffwd_vocabulary_with_logits(get(), width, out, error); }));
  }
  std::size_t logits() const { return ffwd_vocabulary_logits(get()); }
  std::size_t mask_words() const { return ffwd_vocabulary_mask_words(get()); }
  Tokens ends() const {
    return detail::list<std::uint32_t>([&](auto ids, auto room, auto count, auto error) {
      ffwd_vocabulary_ends(get(), ids, room, count, error);
    });
  }
  Tokens encode(std::string_view text) const {
    return detail::list<std::uint32_t>([&](auto ids, auto room, auto count, auto error) {
      ffwd_vocabulary_encode(get(), text.data(), text.size(), ids, room, count, error);
    });
  }
  std::string token(std::uint32_t id) const {
    auto bytes = detail::list<std::uint8_t>([&](auto bytes, auto room, auto count, auto error) {
      ffwd_vocabulary_token(get(), id, bytes, room, count, error);
    });
    return std::string(bytes.begin(), bytes.end());
  }

private:
  template <class Call> static ffwd_vocabulary *make(Call call) {
    return detail::make<ffwd_vocabulary>(call);
  }
};

class Constraint : public detail::Owned<ffwd_constraint, ffwd_constraint_free> {
public:
  Constraint(const char *kind, std::string_view text, const char *options = nullptr)
      : unique_ptr(detail::make<ffwd_constraint>([&](auto out, auto error) {
          ffwd_constraint_new(kind, text.data(), text.size(), options, out, error);
        })) {}
};

class Grammar : public detail::Owned<ffwd_grammar, ffwd_grammar_free> {
public:
  Grammar(const Vocabulary &vocabulary, const Constraint &constraint)
      : unique_ptr(detail::make<ffwd_grammar>([&](auto out, auto error) {
          ffwd_grammar_new(vocabulary.get(), constraint.get(), out, error);
        })) {}
};

class Matcher : public detail::Owned<ffwd_matcher, ffwd_matcher_free> {
public:
  explicit Matcher(const Grammar &grammar)
      : unique_ptr(detail::make<ffwd_matcher>(
            [&](auto out, auto error) { ffwd_matcher_new(grammar.get(), out, error); })) {}
  Matcher(const Matcher &other)
      : unique_ptr(detail::make<ffwd_matcher>(
            [&](auto out, auto error) { ffwd_matcher_fork(other.get(), out, error); })) {}
  Matcher(Matcher &&) = default;
  Matcher &operator=(Matcher &&) = default;

  void fill(std::vector<std::uint32_t> &words) {
    detail::check([&](auto error) { ffwd_matcher_fill(get(), words.data(), words.size(), error); });
  }
  // False if the token may not come next.
  bool accept(std::uint32_t token) {
    ffwd_error *error = nullptr;
    if (ffwd_matcher_accept(get(), token, &error) == FFWD_STATUS_OK) return true;
    detail::Owned<ffwd_error, ffwd_error_free> owned(error);
    if (ffwd_error_status(error) != FFWD_STATUS_ILLEGAL_TOKEN) throw Error(error);
    return false;
  }
  std::size_t validate(const Tokens &tokens) {
    std::size_t valid = 0;
    detail::check([&](auto error) {
      ffwd_matcher_validate(get(), tokens.data(), tokens.size(), &valid, error);
    });
    return valid;
  }
  void rollback(std::size_t count) {
    detail::check([&](auto error) { ffwd_matcher_rollback(get(), count, error); });
  }
  void reset() {
    detail::check([&](auto error) { ffwd_matcher_reset(get(), error); });
  }
  Tokens forced_tokens() {
    return detail::list<std::uint32_t>([&](auto ids, auto room, auto count, auto error) {
      ffwd_matcher_forced_tokens(get(), ids, room, count, error);
    });
  }
  bool may_end() const { return ffwd_matcher_may_end(get()); }
  bool must_end() const { return ffwd_matcher_must_end(get()); }
  bool is_finished() const { return ffwd_matcher_is_finished(get()); }
};

} // namespace ffwd

#endif
