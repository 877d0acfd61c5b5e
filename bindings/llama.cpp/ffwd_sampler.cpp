#include "ffwd_sampler.h"

#include <algorithm>
#include <cmath>

namespace {

struct state {
    ffwd::Matcher matcher;
    std::vector<uint32_t> mask; // bit t % 32 of word t / 32 is token t
    bool filled = false;        // the mask is that of the matcher
};

state & of(const llama_sampler * sampler) { return *(state *) sampler->ctx; }

const char * name(const llama_sampler *) { return "ffwd"; }

void accept(llama_sampler * sampler, llama_token token) {
    state & s = of(sampler);
    // Programs go on to tell samplers of end tokens.
    if (s.matcher.is_finished()) {
        return;
    }
    if (!s.matcher.accept((uint32_t) token)) {
        throw std::runtime_error("token " + std::to_string(token) + " is not legal here");
    }
    s.filled = false;
}

void apply(llama_sampler * sampler, llama_token_data_array * candidates) {
    state & s = of(sampler);
    if (!s.filled) {
        s.matcher.fill(s.mask);
        s.filled = true;
    }
    // The order stays, so a sorted array stays sorted.
    const uint32_t width = 32 * (uint32_t) s.mask.size();
    size_t kept = 0;
    for (size_t i = 0; i < candidates->size; i++) {
        const uint32_t token = (uint32_t) candidates->data[i].id;
        if (token < width && (s.mask[token / 32] >> (token % 32) & 1)) {
            candidates->data[kept++] = candidates->data[i];
        }
    }
    for (size_t i = 0; kept == 0 && i < candidates->size; i++) {
        candidates->data[i].logit = -INFINITY;
    }
    candidates->size = kept > 0 ? kept : candidates->size;
    candidates->selected = -1;
}

void reset(llama_sampler * sampler) {
    of(sampler).matcher.reset();
    of(sampler).filled = false;
}

llama_sampler * clone(const llama_sampler * sampler) { return llama_sampler_init(sampler->iface, new state(of(sampler))); }

void release(llama_sampler * sampler) { delete &of(sampler); }

std::vector<llama_token> tokenize(const llama_vocab * vocab, const std::string & text) {
    std::vector<llama_token> out(text.size() + 2);
    const int32_t n = llama_tokenize(vocab, text.data(), (int32_t) text.size(), out.data(), (int32_t) out.size(), false, false);
    out.resize((size_t) std::max(0, n));
    return out;
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

int64_t encode(void * user, const char * text, size_t length, uint32_t * ids, size_t capacity) {
    const ffwd::Tokens tokens = ffwd_encode((const llama_vocab *) user, std::string(text, length));
    std::copy_n(tokens.begin(), std::min(tokens.size(), capacity), ids);
    return (int64_t) tokens.size();
}

} // namespace

ffwd::Tokens ffwd_encode(const llama_vocab * vocab, const std::string & text) {
    // SentencePiece tokenizers put a space before a text, but not behind a line break.
    const std::string before = llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_SPM ? "\n" : "";
    const std::vector<llama_token> tokens = tokenize(vocab, before + text);
    const size_t skip = before.empty() ? 0 : tokenize(vocab, before).size();
    return ffwd::Tokens(tokens.begin() + std::min(skip, tokens.size()), tokens.end());
}

std::string ffwd_token_text(const llama_vocab * vocab, llama_token token) {
    std::string text(64, '\0');
    int64_t size = token_bytes((void *) vocab, (uint32_t) token, (uint8_t *) text.data(), text.size());
    if (size > (int64_t) text.size()) {
        text.resize((size_t) size);
        size = token_bytes((void *) vocab, (uint32_t) token, (uint8_t *) text.data(), text.size());
    }
    return text.substr(0, (size_t) std::max<int64_t>(0, size));
}

ffwd::Vocabulary ffwd_vocabulary_of(const llama_model * model) {
    const llama_vocab * vocab = llama_model_get_vocab(model);
    ffwd::Tokens ends;
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
    return ffwd::Vocabulary(tokens);
}

llama_sampler * ffwd_sampler_init(const ffwd::Vocabulary & vocabulary, const ffwd::Grammar & grammar) {
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
    return llama_sampler_init(&functions, new state{ffwd::Matcher(grammar), std::vector<uint32_t>(vocabulary.mask_words())});
}

ffwd::Matcher & ffwd_sampler_matcher(const llama_sampler * sampler) { return of(sampler).matcher; }
