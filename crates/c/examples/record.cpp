// Prints a record of a JSON Schema. A random number generator stands for the model.
//
//   record tokenizer.json schema.json
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>

#include "ffwd.hpp"

int main(int argc, char **argv) try {
  if (argc != 3) {
    std::cerr << "usage: record tokenizer.json schema.json\n";
    return 2;
  }
  std::ifstream file(argv[2]);
  const std::string schema{std::istreambuf_iterator<char>(file), {}};
  const ffwd::Vocabulary vocabulary(argv[1]);
  const ffwd::Grammar grammar(vocabulary, ffwd::Constraint("json_schema", schema));
  ffwd::Matcher matcher(grammar);

  std::mt19937 random(7);
  std::vector<std::uint32_t> mask(vocabulary.mask_words());
  while (!matcher.must_end()) {
    // What the schema leaves no choice about needs no model.
    auto tokens = matcher.forced_tokens();
    if (tokens.empty()) {
      matcher.fill(mask);
      std::vector<std::uint32_t> allowed;
      for (std::uint32_t token = 0; token < vocabulary.logits(); token++)
        if (mask[token / 32] >> token % 32 & 1) allowed.push_back(token);
      tokens = {allowed[random() % allowed.size()]};
    }
    for (const auto token : tokens) {
      matcher.accept(token);
      std::cout << vocabulary.token(token);
    }
    if (matcher.is_finished()) break;
  }
  std::cout << '\n';
} catch (const ffwd::Error &error) {
  std::cerr << error.what() << '\n';
  return 1;
}
