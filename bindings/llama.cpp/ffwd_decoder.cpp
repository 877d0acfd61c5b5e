#include "ffwd_decoder.h"

#include <algorithm>
#include <stdexcept>

static const int32_t SHORTEST_COPY = 4, FAILURES = 4, LONGEST_PAUSE = 32;
static const size_t CANDIDATES = 6; // copies that are looked at

static std::string text_of(const llama_vocab * vocab, const std::vector<llama_token> & tokens) {
    std::string text(8 * tokens.size() + 64, '\0');
    int32_t size = llama_detokenize(vocab, tokens.data(), (int32_t) tokens.size(), text.data(), (int32_t) text.size(), false, false);
    if (size < 0) {
        text.resize((size_t) -size);
        size = llama_detokenize(vocab, tokens.data(), (int32_t) tokens.size(), text.data(), (int32_t) text.size(), false, false);
    }
    return text.substr(0, (size_t) std::max(0, size));
}

ffwd_decoder::ffwd_decoder(llama_context * ctx, llama_sampler * chain, llama_sampler * constraint,
                           std::vector<llama_token> prompt, ffwd_decoder_options options)
    : ctx(ctx), chain(chain), matcher(ffwd_sampler_matcher(constraint)), options(options), text(std::move(prompt)),
      copies(text_of(llama_model_get_vocab(llama_get_model(ctx)), text)), prompt_size(text.size()) {
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
    // At the end of a draft the model may have joined another way what comes next.
    if (accepted + 1 < (int32_t) drafted.size()) {
        learn_split(drafted[accepted], given[accepted]);
    }
    if (accepted >= forced) {
        learn((int32_t) drafted.size() - forced, accepted - forced);
    }
    // The token chosen last is not in the cache, nor is what the draft had behind the others.
    text.insert(text.end(), given.begin(), given.end());
    for (llama_token token : given) {
        copies.extend(ffwd_token_text(vocab, token));
    }
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

// Legal tokens to verify: forced ones and copies in turn.
std::vector<llama_token> ffwd_decoder::draft() {
    const size_t used = text.size() + 1, context = llama_n_ctx_seq(ctx);
    const size_t limit = std::min<size_t>(options.max_draft, context > used ? context - used : 0);
    ffwd::Tokens out;
    forced = 0;
    // No draft with the prompt: llama.cpp computes long batches otherwise than short ones, and rounds otherwise.
    if (limit == 0 || text.size() > cached + 1) {
        return {};
    }
    ffwd::Matcher state(matcher);
    add_forced(state, out, limit);
    forced = (int32_t) out.size();
    if (options.copy && pause == 0) {
        const size_t most = std::min(limit, out.size() + (size_t) copy_size);
        // What is forced behind a copy costs as much as the copy if that was wrong.
        while (out.size() < most && add_copy(state, out, most) && add_forced(state, out, most)) {
        }
    }
    return {out.begin(), out.end()};
}

// The token in front of what comes behind a draft, or -1. The prompt's last token is no part of the answer: nothing
// of the answer joins it.
int64_t ffwd_decoder::last_of(const ffwd::Tokens & draft) const {
    return !draft.empty() ? (int64_t) draft.back() : text.size() > prompt_size ? text.back() : -1;
}

// Appends what the grammar forces. False if that is nothing.
bool ffwd_decoder::add_forced(ffwd::Matcher & state, ffwd::Tokens & draft, size_t limit) const {
    ffwd::Tokens run(limit - draft.size());
    size_t count = 0;
    ffwd::detail::check([&](auto error) {
        ffwd_matcher_forced_draft(state.get(), last_of(draft), run.data(), run.size(), &count, error);
    });
    run.resize(std::min(count, run.size()));
    run = as_written(run);
    run.resize(std::min(limit - draft.size(), state.validate(run)));
    for (uint32_t token : run) {
        state.accept(token);
    }
    draft.insert(draft.end(), run.begin(), run.end());
    return !run.empty();
}

// Appends the rest of the value as the prompt has it; of several places the one of which most is legal. Where the
// value is likely to end there, what ends it and is forced behind belongs to it: one token often spans both.
bool ffwd_decoder::add_copy(ffwd::Matcher & state, ffwd::Tokens & draft, size_t limit) const {
    ffwd_copies now = copies;
    for (uint32_t token : draft) {
        now.extend(ffwd_token_text(vocab, (llama_token) token));
    }
    ffwd::Tokens best;
    for (const ffwd_copy & copy : now.find(CANDIDATES)) {
        ffwd::Tokens tokens = as_written(tokens_behind(last_of(draft), copy.text));
        size_t legal = state.validate(tokens);
        if (legal == tokens.size() && copy.complete) {
            for (const char * end : {now.in_string() ? "\"" : ",", "}"}) {
                ffwd::Matcher ahead(state);
                bool ends = true;
                for (uint32_t token : tokens_behind(-1, copy.text + end)) {
                    ends = ends && ahead.accept(token);
                }
                if (ends) {
                    const auto run = ffwd::detail::list<uint8_t>([&](auto bytes, auto room, auto count, auto error) {
                        ffwd_matcher_forced_bytes(ahead.get(), bytes, room, count, error);
                    });
                    const std::string bytes = copy.text + end + std::string(run.begin(), run.end());
                    tokens = as_written(tokens_behind(last_of(draft), bytes));
                    legal = state.validate(tokens);
                    break;
                }
            }
        }
        if (legal > best.size()) {
            best.assign(tokens.begin(), tokens.begin() + legal);
        }
    }
    best.resize(std::min(best.size(), limit - draft.size()));
    for (uint32_t token : best) {
        state.accept(token);
    }
    draft.insert(draft.end(), best.begin(), best.end());
    return !best.empty();
}

// A text as the tokenizer writes it behind a token, or by itself if it would join them otherwise.
ffwd::Tokens ffwd_decoder::tokens_behind(int64_t last, const std::string & bytes) const {
    const std::string before = last < 0 ? "" : ffwd_token_text(vocab, (llama_token) last);
    ffwd::Tokens out = ffwd_encode(vocab, before + bytes);
    if (last < 0) {
        return out;
    }
    if (!out.empty() && out[0] == (uint32_t) last) {
        out.erase(out.begin());
        return out;
    }
    return ffwd_encode(vocab, bytes);
}

// The same text with the splits that the model made before: it may prefer `",` and `"` to the token of both.
ffwd::Tokens ffwd_decoder::as_written(const ffwd::Tokens & tokens) const {
    ffwd::Tokens out;
    for (uint32_t token : tokens) {
        const auto split = splits.find(token);
        out.push_back(split == splits.end() ? token : split->second);
        if (split != splits.end()) {
            const std::string whole = ffwd_token_text(vocab, (llama_token) token);
            const size_t begun = ffwd_token_text(vocab, (llama_token) split->second).size();
            const ffwd::Tokens rest = ffwd_encode(vocab, whole.substr(begun));
            out.insert(out.end(), rest.begin(), rest.end());
        }
    }
    return out;
}

void ffwd_decoder::learn_split(llama_token drafted, llama_token chosen) {
    const std::string whole = ffwd_token_text(vocab, drafted), begun = ffwd_token_text(vocab, chosen);
    if (!begun.empty() && begun.size() < whole.size() && whole.compare(0, begun.size(), begun) == 0) {
        splits[(uint32_t) drafted] = (uint32_t) chosen;
    }
    // The other way round: it now writes the longer one.
    splits.erase((uint32_t) chosen);
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
