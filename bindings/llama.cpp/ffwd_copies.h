// Guesses at the rest of a value: a copy of what follows its first characters in the prompt.
//
// Records say much that their texts say. The value so far is searched in the text, at starts of words; what
// follows there up to a likely end is a candidate. Inside of a number, separators of thousands are left out.
// Tokens would not do: a word in a text begins with its space, a value does not.
#pragma once

#include <string>
#include <vector>

struct ffwd_copy {
    std::string text;    // what may follow; escaped as JSON has it if need be
    bool complete;       // it reaches a likely end of the value
};

class ffwd_copies {
public:
    explicit ffwd_copies(std::string source) : source(std::move(source)) {}

    // Adds bytes to the answer.
    void extend(const std::string & bytes);

    // True within a string of JSON.
    bool in_string() const { return quoted; }

    // At most `count` candidates, the later place in the source first.
    std::vector<ffwd_copy> find(size_t count) const;

private:
    ffwd_copy from(size_t place) const;

    std::string source;
    std::string value; // what the answer has of the value that it is within
    bool quoted = false, escaped = false;
};
