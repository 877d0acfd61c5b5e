#include "ffwd_sampler.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace {

// Bits of a mask, and whether they are those of the state.
struct state {
    ffwd_matcher * matcher;
    std::vector<uint32_t> mask; // bit t % 32 of word t / 32 is token t
    bool filled;
};

state & of(const llama_sampler * sampler) { return *(state *) sampler->ctx; }

// Throws if a call failed that fails only if it is used wrongly.
void check(ffwd_status status, ffwd_error * error) {
    if (status != FFWD_STATUS_OK) {
        const std::string message = ffwd_error_text(error);
        ffwd_error_free(error);
        throw std::runtime_error(message);
    }
}

const char * name(const llama_sampler *) { return "ffwd"; }

void accept(llama_sampler * sampler, llama_token token) {
    state & s = of(sampler);
    // Programs go on to tell samplers of end tokens.
    if (ffwd_matcher_is_finished(s.matcher)) {
        return;
    }
    ffwd_error * error = nullptr;
    check(ffwd_matcher_accept(s.matcher, (uint32_t) token, &error), error);
    s.filled = false;
}

void apply(llama_sampler * sampler, llama_token_data_array * candidates) {
    state & s = of(sampler);
    if (!s.filled) {
        ffwd_error * error = nullptr;
        check(ffwd_matcher_fill(s.matcher, s.mask.data(), s.mask.size(), &error), error);
        s.filled = true;
    }
    const uint32_t width = 32 * (uint32_t) s.mask.size();
    // The order stays, so a sorted array stays sorted.
    size_t kept = 0;
    for (size_t i = 0; i < candidates->size; i++) {
        const uint32_t token = (uint32_t) candidates->data[i].id;
        if (token < width && (s.mask[token / 32] >> (token % 32) & 1)) {
            candidates->data[kept++] = candidates->data[i];
        }
    }
    if (kept > 0) {
        candidates->size = kept;
    } else {
        for (size_t i = 0; i < candidates->size; i++) {
            candidates->data[i].logit = -INFINITY;
        }
    }
    candidates->selected = -1;
}

void reset(llama_sampler * sampler) {
    state & s = of(sampler);
    ffwd_error * error = nullptr;
    check(ffwd_matcher_reset(s.matcher, &error), error);
    s.filled = false;
}

llama_sampler * make(ffwd_matcher * matcher, size_t words);

llama_sampler * clone(const llama_sampler * sampler) {
    ffwd_matcher * copy = nullptr;
    ffwd_error * error = nullptr;
    check(ffwd_matcher_fork(of(sampler).matcher, &copy, &error), error);
    return make(copy, of(sampler).mask.size());
}

void release(llama_sampler * sampler) {
    ffwd_matcher_free(of(sampler).matcher);
    delete &of(sampler);
}

llama_sampler * make(ffwd_matcher * matcher, size_t words) {
    // Fields that only newer versions of llama.cpp have stay null.
    static llama_sampler_i functions = [] {
        llama_sampler_i i = {};
        i.name = name;
        i.accept = accept;
        i.apply = apply;
        i.reset = reset;
        i.clone = clone;
        i.free = release;
        return i;
    }();
    return llama_sampler_init(&functions, new state{matcher, std::vector<uint32_t>(words), false});
}

int64_t token_bytes(void * user, uint32_t id, uint8_t * bytes, size_t capacity) {
    const auto * vocab = (const llama_vocab *) user;
    const int no_text = LLAMA_TOKEN_ATTR_UNKNOWN | LLAMA_TOKEN_ATTR_UNUSED | LLAMA_TOKEN_ATTR_CONTROL;
    if (llama_vocab_get_attr(vocab, (llama_token) id) & no_text) {
        return -1;
    }
    const int32_t n = llama_token_to_piece(vocab, (llama_token) id, (char *) bytes, (int32_t) capacity, 0, false);
    return n < 0 ? -n : n;
}

// Text in the tokens of the model, without special ones.
std::vector<llama_token> tokenize(const llama_vocab * vocab, const std::string & text) {
    std::vector<llama_token> out(text.size() + 2);
    out.resize((size_t) std::max(0, llama_tokenize(vocab, text.data(), (int32_t) text.size(), out.data(), (int32_t) out.size(), false, false)));
    return out;
}

int64_t encode(void * user, const char * text, size_t length, uint32_t * ids, size_t capacity) {
    const auto * vocab = (const llama_vocab *) user;
    // SentencePiece tokenizers put a space before a text, but not behind a line break.
    const std::string before = llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_SPM ? "\n" : "";
    const size_t skip = before.empty() ? 0 : tokenize(vocab, before).size();
    const std::vector<llama_token> tokens = tokenize(vocab, before + std::string(text, length));
    for (size_t i = skip; i < tokens.size() && i - skip < capacity; i++) {
        ids[i - skip] = (uint32_t) tokens[i];
    }
    return (int64_t) tokens.size() - (int64_t) skip;
}

} // namespace

ffwd_status ffwd_vocabulary_of(const llama_model * model, ffwd_vocabulary ** out, ffwd_error ** error) {
    const llama_vocab * vocab = llama_model_get_vocab(model);
    std::vector<uint32_t> ends;
    for (llama_token token = 0; token < llama_vocab_n_tokens(vocab); token++) {
        if (llama_vocab_is_eog(vocab, token)) {
            ends.push_back((uint32_t) token);
        }
    }
    ffwd_tokens tokens = {};
    tokens.count = (size_t) llama_vocab_n_tokens(vocab);
    tokens.token = token_bytes;
    tokens.ends = ends.data();
    tokens.end_count = ends.size();
    tokens.encode = encode;
    tokens.user = (void *) vocab;
    return ffwd_vocabulary_from_tokens(&tokens, out, error);
}

llama_sampler * ffwd_sampler_init(const ffwd_vocabulary * vocabulary, const ffwd_grammar * grammar) {
    ffwd_matcher * matcher = nullptr;
    if (ffwd_matcher_new(grammar, &matcher, nullptr) != FFWD_STATUS_OK) {
        return nullptr;
    }
    return make(matcher, ffwd_vocabulary_mask_words(vocabulary));
}

ffwd_matcher * ffwd_sampler_matcher(const llama_sampler * sampler) { return of(sampler).matcher; }
