// As replay.c, through the classes of ffwd.hpp.
#include <fstream>
#include <iostream>
#include <optional>

#include "ffwd.hpp"

namespace {

void expect(bool holds, const std::string &what) {
  if (!holds) throw std::runtime_error(what);
}

std::string read_text(std::istream &script, std::size_t length) {
  std::string text(length, '\0');
  expect(static_cast<bool>(script.read(text.data(), static_cast<std::streamsize>(length))), "the script ends early");
  return text;
}

ffwd::Tokens read_tokens(std::istream &script) {
  std::size_t count = 0;
  script >> count;
  ffwd::Tokens tokens(count);
  for (auto &token : tokens) script >> token;
  return tokens;
}

std::uint64_t digest(const std::vector<std::uint32_t> &words) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (auto word : words) hash = (hash ^ word) * 0x100000001b3u;
  return hash;
}

void replay(std::istream &script, std::size_t &line, std::size_t &masks) {
  std::optional<ffwd::Vocabulary> vocabulary;
  std::optional<ffwd::Matcher> matcher;
  std::vector<std::uint32_t> words;
  for (char command; script >> command; line++) {
    std::size_t length = 0, more = 0, count = 0;
    std::uint32_t token = 0;
    switch (command) {
    case 'V':
      script >> length;
      script.get();
      vocabulary.emplace(read_text(script, length).c_str());
      words.resize(vocabulary->mask_words());
      break;
    case 'C': {
      std::string kind;
      script >> kind >> length >> more;
      script.get();
      const auto text = read_text(script, length), options = read_text(script, more);
      const ffwd::Grammar grammar(*vocabulary, ffwd::Constraint(kind.c_str(), text, options.c_str()));
      matcher.emplace(grammar);
      break;
    }
    case 'm': {
      std::uint64_t want = 0;
      script >> std::hex >> want >> std::dec;
      matcher->fill(words);
      expect(digest(words) == want, "another mask");
      masks++;
      break;
    }
    case 'a':
      script >> token;
      expect(matcher->accept(token), "the token is not legal");
      break;
    case 'x':
      script >> token;
      expect(!matcher->accept(token), "the token is legal");
      break;
    case 'r':
      script >> count;
      matcher->rollback(count);
      break;
    case 'v':
      script >> count;
      expect(matcher->validate(read_tokens(script)) == count, "another number of legal tokens");
      break;
    case 'f':
      expect(matcher->forced_tokens() == read_tokens(script), "other forced tokens");
      break;
    case 'k':
      matcher = ffwd::Matcher(*matcher);
      break;
    case 'z':
      matcher->reset();
      break;
    case 'e': {
      bool may = false, must = false, finished = false;
      script >> may >> must >> finished;
      expect(matcher->may_end() == may && matcher->must_end() == must && matcher->is_finished() == finished,
             "another end");
      break;
    }
    default:
      expect(false, "an unknown command");
    }
  }
}

} // namespace

int main(int argc, char **argv) {
  std::ifstream script(argc == 2 ? argv[1] : "", std::ios::binary);
  std::size_t line = 1, masks = 0;
  try {
    expect(static_cast<bool>(script), "usage: replay SCRIPT");
    replay(script, line, masks);
  } catch (const std::exception &error) {
    std::cerr << "line " << line << ": " << error.what() << '\n';
    return 1;
  }
  std::cout << masks << " masks\n";
}
