#include "ffwd_copies.h"

#include <cstring>

static const size_t LONGEST = 96; // bytes of a copy

static bool is_word(unsigned char c) {
    return c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

void ffwd_copies::extend(const std::string & bytes) {
    for (char c : bytes) {
        if (quoted && !escaped && c == '"') {
            quoted = false;
            value.clear();
        } else if (quoted) {
            escaped = !escaped && c == '\\';
            value += c;
        } else if (c == '"') {
            quoted = true;
            value.clear();
        } else if (is_digit(c) || c == '-' || c == '.') {
            value += c;
        } else {
            value.clear();
        }
    }
}

std::vector<ffwd_copy> ffwd_copies::find(size_t count) const {
    std::vector<ffwd_copy> out;
    // The whole value, or what it has from the start of a word on.
    for (size_t start = 0; start < value.size() && out.empty(); start++) {
        if (start > 0 && (is_word(value[start - 1]) || value.size() - start < 4)) {
            continue;
        }
        const std::string part = value.substr(start);
        for (size_t at = source.size(); at > 0 && out.size() < count;) {
            at = source.rfind(part, at - 1);
            if (at == std::string::npos) {
                break;
            }
            if (at > 0 && is_word(part[0]) && is_word(source[at - 1])) {
                continue;
            }
            const ffwd_copy copy = from(at + part.size());
            if (!copy.text.empty() || copy.complete) {
                out.push_back(copy);
            }
        }
    }
    return out;
}

// What the source has from a place on, up to where a value is likely to end.
ffwd_copy ffwd_copies::from(size_t place) const {
    ffwd_copy out = {"", true};
    // Names and numbers end before a word in lower case.
    const bool name = !value.empty() && (is_digit(value[0]) || (value[0] >= 'A' && value[0] <= 'Z'));
    for (size_t at = place; at < source.size(); at++) {
        const char c = source[at], next = at + 1 < source.size() ? source[at + 1] : '\n';
        if (out.text.size() >= LONGEST) {
            return {out.text, false};
        }
        if (quoted) {
            const bool blank = next == ' ' || next == '\n' || next == '\r';
            if ((unsigned char) c < 0x20 || c == '"' || (c == ' ' && next == ' ') || (std::strchr(".,;:", c) && blank)) {
                return out;
            }
            if (name && !out.text.empty() && c == ' ' && next >= 'a' && next <= 'z') {
                return out;
            }
            if (c == '\\') {
                out.text += '\\';
            }
        } else if (c == ',' && is_digit(next)) {
            continue;
        } else if (!is_digit(c) && !(c == '.' && is_digit(next))) {
            return out;
        }
        out.text += c;
    }
    return out;
}
