#include "ffwd_decoder.h"

#include <algorithm>
#include <stdexcept>

// A copy begins where this many of the last tokens occur before, or fewer if there is no such place.
static const size_t LONGEST_MATCH = 4;
static const int32_t SHORTEST_COPY = 4, FAILURES = 4, LONGEST_PAUSE = 32;

ffwd_decoder::ffwd_decoder(llama_context * ctx, llama_sampler * chain, llama_sampler * constraint,
                           std::vector<llama_token> prompt, ffwd_decoder_options options)
    : ctx(ctx), chain(chain), matcher(ffwd_sampler_matcher(constraint)), options(options), text(std::move(prompt)),
      prompt_size(text.size()) {
    const llama_model * model = llama_get_model(ctx);
    vocab = llama_model_get_vocab(model);
    if (text.empty()) {
        throw std::invalid_argument("the prompt has no tokens");
    }
    if (llama_model_is_recurrent(model) || llama_model_is_hybrid(model)) {
        this->options.max_draft = 0;
    }
    this->options.max_draft = std::clamp<int32_t>(this->options.max_draft, 0, (int32_t) llama_n_batch(ctx) - 1);
    // The last token is read anew for its logits.
    cached = std::min((size_t) std::max(0, options.cached), text.size() - 1);
    cut();
    batch = llama_batch_init((int32_t) llama_n_batch(ctx), 0, 1);
}

ffwd_decoder::~ffwd_decoder() { llama_batch_free(batch); }

bool ffwd_decoder::ended() const { return text.size() > prompt_size && llama_vocab_is_eog(vocab, text.back()); }

std::vector<llama_token> ffwd_decoder::step() {
    const std::vector<llama_token> drafted = draft();
    std::vector<llama_token> fresh(text.begin() + cached, text.end());
    fresh.insert(fresh.end(), drafted.begin(), drafted.end());
    const int32_t first = decode(fresh, (int32_t) drafted.size() + 1);

    std::vector<llama_token> given;
    while (true) {
        const size_t at = given.size();
        given.push_back(llama_sampler_sample(chain, ctx, first + (int32_t) at));
        if (at >= drafted.size() || given[at] != drafted[at] || llama_vocab_is_eog(vocab, given[at])) {
            break;
        }
    }
    const int32_t accepted = (int32_t) given.size() - 1;
    counts.tokens += (int32_t) given.size();
    counts.drafted += (int32_t) drafted.size();
    counts.accepted += accepted;
    if (accepted >= forced) {
        learn((int32_t) drafted.size() - forced, accepted - forced);
    }
    // The token chosen last is not in the cache, nor is what the draft had behind the others.
    text.insert(text.end(), given.begin(), given.end());
    cached = text.size() - 1;
    if (accepted < (int32_t) drafted.size()) {
        cut();
    }
    return given;
}

// Removes from the cache what is behind the first `cached` tokens.
void ffwd_decoder::cut() {
    if (llama_memory_seq_rm(llama_get_memory(ctx), options.seq, (llama_pos) cached, -1)) {
        return;
    }
    if (text.size() > prompt_size) {
        throw std::runtime_error("the memory of this model cannot be cut back; set max_draft to 0");
    }
    // At the start: the prompt is read as a whole.
    llama_memory_seq_rm(llama_get_memory(ctx), options.seq, -1, -1);
    cached = 0;
}

// Appends tokens to the cache. Returns the index in the last batch of the first of the `rows` last tokens, which
// are those with logits.
int32_t ffwd_decoder::decode(const std::vector<llama_token> & tokens, int32_t rows) {
    const int32_t size = (int32_t) llama_n_batch(ctx), total = (int32_t) tokens.size();
    for (int32_t at = 0; at < total; at += batch.n_tokens) {
        const bool last = total - at <= size;
        batch.n_tokens = last ? total - at : std::min(size, total - at - rows);
        for (int32_t i = 0; i < batch.n_tokens; i++) {
            batch.token[i] = tokens[at + i];
            batch.pos[i] = (llama_pos) cached + at + i;
            batch.n_seq_id[i] = 1;
            batch.seq_id[i][0] = options.seq;
            batch.logits[i] = at + i >= total - rows;
        }
        counts.decodes++;
        if (llama_decode(ctx, batch) != 0) {
            throw std::runtime_error("llama_decode failed; the context has room for " +
                                     std::to_string(llama_n_ctx(ctx)) + " tokens");
        }
    }
    return batch.n_tokens - rows;
}

// Legal tokens to verify: forced ones, then a copy.
std::vector<llama_token> ffwd_decoder::draft() {
    const size_t used = text.size() + 1, context = llama_n_ctx_seq(ctx);
    const size_t limit = std::min<size_t>(options.max_draft, context > used ? context - used : 0);
    // The prompt's last token is no part of the answer: nothing of the answer joins it.
    const int64_t last = text.size() > prompt_size ? text.back() : -1;
    ffwd::Tokens out(limit);
    size_t count = 0;
    ffwd::detail::check([&](auto error) {
        ffwd_matcher_forced_draft(matcher.get(), last, out.data(), limit, &count, error);
    });
    out.resize(std::min(count, limit));
    const size_t run = out.size();
    if (options.copy && run < limit && pause == 0) {
        const auto copy = copies({out.begin(), out.end()}, std::min<size_t>(limit - run, copy_size));
        out.insert(out.end(), copy.begin(), copy.end());
    }
    out.resize(matcher.validate(out));
    forced = (int32_t) std::min(run, out.size());
    return {out.begin(), out.end()};
}

// What follows the last tokens of the text and `behind` elsewhere in the text, at most `limit` tokens. The longest
// match decides, then the latest one.
std::vector<llama_token> ffwd_decoder::copies(const std::vector<llama_token> & behind, size_t limit) const {
    std::vector<llama_token> tail(text.end() - std::min(text.size(), LONGEST_MATCH), text.end());
    tail.insert(tail.end(), behind.begin(), behind.end());
    size_t best = 0, found = 0; // the length of the match, and where what follows it begins
    for (size_t end = text.size() - 1; end > 0; end--) {
        size_t length = 0;
        while (length < std::min({LONGEST_MATCH, tail.size(), end}) && text[end - 1 - length] == tail[tail.size() - 1 - length]) {
            length++;
        }
        if (length > best) {
            best = length, found = end;
        }
    }
    if (best == 0) {
        return {};
    }
    return std::vector<llama_token>(text.begin() + found, text.begin() + std::min(text.size(), found + limit));
}

// Copies grow while they are right. After several failures there are none for a while.
void ffwd_decoder::learn(int32_t copied, int32_t accepted) {
    pause = std::max(0, pause - 1);
    if (copied == 0) {
        return;
    }
    copy_size = accepted == copied ? std::min(2 * copy_size, options.max_draft)
                                   : std::min(std::max(SHORTEST_COPY, 2 * accepted), copy_size);
    failures = accepted > 0 ? 0 : failures + 1;
    if (failures >= FAILURES) {
        pause = std::min(2 << std::min(failures - FAILURES, 8), LONGEST_PAUSE);
    }
}
