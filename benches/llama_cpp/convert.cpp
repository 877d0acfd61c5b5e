// llama.cpp's own converter: a JSON Schema from the standard input as GBNF. The status is 3 if it is refused.
#include <cstdio>
#include <iostream>
#include <iterator>

#include "json-schema-to-grammar.h"

int main() {
    const std::string schema((std::istreambuf_iterator<char>(std::cin)), {});
    try {
        std::cout << json_schema_to_grammar(common_json::parse(schema));
    } catch (const std::exception & e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 3;
    }
}
