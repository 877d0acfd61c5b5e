// One way to write constrained answers, timed: benches/llama_cpp/sampler.py runs it for each way.
//
//   compare MODEL.gguf WAY CONSTRAINT MAX_TOKENS CONTEXT PROMPT.txt...
//
// WAY is `own` (llama.cpp's grammar, CONSTRAINT is a file of GBNF), `masks`, `forced` (drafts of what the grammar
// forces) or `exact` (and of copies); for these CONSTRAINT is a JSON Schema. One thread, greedy. What a prompt
// shares with the one before it stays in the cache, as in llama.cpp's server. For each prompt a line: tokens of the
// prompt, tokens, calls of llama_decode, 1 if it ended, seconds to compile, seconds, bytes of the answer; then the
// answer. The status is 3 if the constraint is refused.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "ffwd_decoder.h"

using tokens = std::vector<llama_token>;

static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static std::string read(const char * path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        throw std::runtime_error(std::string(path) + " cannot be read");
    }
    return {std::istreambuf_iterator<char>(file), {}};
}

struct answer {
    tokens text;
    int decodes = 0;
    bool ended = false;
};

static void decode(llama_context * ctx, const tokens & all, size_t from) {
    for (size_t at = from; at < all.size();) {
        const size_t size = std::min<size_t>(all.size() - at, llama_n_batch(ctx));
        if (llama_decode(ctx, llama_batch_get_one((llama_token *) all.data() + at, (int32_t) size)) != 0) {
            throw std::runtime_error("llama_decode failed");
        }
        at += size;
    }
}

// The most probable token that llama.cpp's grammar takes, as its programs choose: the best one of all is tried, and
// the whole vocabulary is masked if it fails.
static llama_token choose(llama_context * ctx, llama_sampler * grammar, std::vector<llama_token_data> & all) {
    const float * logits = llama_get_logits_ith(ctx, -1);
    const size_t width = all.size();
    const llama_token best = (llama_token) (std::max_element(logits, logits + width) - logits);
    llama_token_data one = {best, 1.0f, 0.0f};
    llama_token_data_array single = {&one, 1, -1, false};
    llama_sampler_apply(grammar, &single);
    if (one.logit != -INFINITY) {
        return best;
    }
    for (size_t i = 0; i < width; i++) {
        all[i] = {(llama_token) i, logits[i], 0.0f};
    }
    llama_token_data_array array = {all.data(), width, -1, false};
    llama_sampler_apply(grammar, &array);
    return std::max_element(all.begin(), all.end(), [](auto & a, auto & b) { return a.logit < b.logit; })->id;
}

static answer by_grammar(llama_context * ctx, llama_sampler * grammar, const tokens & prompt, int cached, size_t most) {
    const llama_vocab * vocab = llama_model_get_vocab(llama_get_model(ctx));
    std::vector<llama_token_data> all((size_t) llama_vocab_n_tokens(vocab));
    llama_memory_seq_rm(llama_get_memory(ctx), 0, cached, -1);
    answer out;
    tokens text = prompt;
    size_t read = (size_t) cached;
    while (!out.ended && out.text.size() < most) {
        decode(ctx, text, read);
        read = text.size();
        out.decodes++;
        const llama_token token = choose(ctx, grammar, all);
        llama_sampler_accept(grammar, token);
        text.push_back(token);
        out.text.push_back(token);
        out.ended = llama_vocab_is_eog(vocab, token);
    }
    return out;
}

static answer by_masks(llama_context * ctx, llama_sampler * chain, llama_sampler * sampler, const tokens & prompt,
                       const ffwd_decoder_options & options, size_t most) {
    ffwd_decoder decoder(ctx, chain, sampler, prompt, options);
    answer out;
    while (!decoder.ended() && out.text.size() < most) {
        const tokens given = decoder.step();
        out.text.insert(out.text.end(), given.begin(), given.end());
    }
    out.text.resize(std::min(out.text.size(), most));
    out.decodes = decoder.stats().decodes;
    out.ended = decoder.ended() && llama_vocab_is_eog(llama_model_get_vocab(llama_get_model(ctx)), out.text.back());
    return out;
}

static tokens tokenize(const llama_vocab * vocab, const std::string & text) {
    tokens out(text.size() + 8);
    out.resize((size_t) std::max(0, llama_tokenize(vocab, text.data(), (int32_t) text.size(), out.data(), (int32_t) out.size(), true, true)));
    return out;
}

static std::string text_of(const llama_vocab * vocab, const tokens & ids) {
    std::string text(64 * ids.size() + 64, '\0');
    const int32_t n = llama_detokenize(vocab, ids.data(), (int32_t) ids.size(), text.data(), (int32_t) text.size(), false, false);
    return text.substr(0, (size_t) std::max(0, n));
}

static int run(int argc, char ** argv) {
    llama_log_set([](ggml_log_level level, const char * text, void *) {
        if (level == GGML_LOG_LEVEL_ERROR) {
            std::fputs(text, stderr);
        }
    }, nullptr);
    llama_model * model = llama_model_load_from_file(argv[1], llama_model_default_params());
    llama_context_params params = llama_context_default_params();
    params.n_ctx = (uint32_t) std::atoi(argv[5]);
    params.n_threads = params.n_threads_batch = 1;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    llama_context * ctx = model ? llama_init_from_model(model, params) : nullptr;
    if (!ctx) {
        throw std::runtime_error("the model cannot be loaded");
    }
    const llama_vocab * vocab = llama_model_get_vocab(model);
    const std::string way = argv[2], constraint = read(argv[3]);
    const size_t most = (size_t) std::atoi(argv[4]);

    llama_sampler * sampler = nullptr;
    double start = now();
    if (way == "own") {
        sampler = llama_sampler_init_grammar(vocab, constraint.c_str(), "root");
        if (!sampler) {
            return 3;
        }
    } else {
        // Once for a model, so it does not count.
        const ffwd::Vocabulary vocabulary = ffwd_vocabulary_of(model);
        start = now();
        try {
            sampler = ffwd_sampler_init(vocabulary, ffwd::Grammar(vocabulary, ffwd::Constraint("json_schema", constraint)));
        } catch (const ffwd::Error & e) {
            std::fprintf(stderr, "%s\n", e.what());
            return 3;
        }
    }
    const double compile = now() - start;
    llama_sampler * chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
    llama_sampler_chain_add(chain, sampler);
    llama_sampler_chain_add(chain, llama_sampler_init_greedy());
    ffwd_decoder_options options;
    options.max_draft = way == "masks" ? 0 : options.max_draft;
    options.copy = way == "exact";

    // So that no way pays for the first touch of the weights.
    tokens before = tokenize(vocab, "Hello");
    decode(ctx, before, 0);
    for (int i = 6; i < argc; i++) {
        const tokens prompt = tokenize(vocab, read(argv[i]));
        size_t cached = 0;
        while (cached < before.size() && cached + 1 < prompt.size() && before[cached] == prompt[cached]) {
            cached++;
        }
        before = prompt;
        llama_sampler_reset(chain);
        options.cached = (int32_t) cached;
        start = now();
        const answer a = way == "own" ? by_grammar(ctx, sampler, prompt, (int) cached, most)
                                      : by_masks(ctx, chain, sampler, prompt, options, most);
        const double seconds = now() - start;
        const std::string text = text_of(vocab, a.text);
        std::printf("%zu %zu %d %d %.6f %.6f %zu\n%s\n", prompt.size(), a.text.size(), a.decodes, a.ended, compile, seconds,
                    text.size(), text.c_str());
        std::fflush(stdout);
    }
    llama_sampler_free(chain);
    llama_free(ctx);
    llama_model_free(model);
    return 0;
}

int main(int argc, char ** argv) {
    if (argc < 7) {
        std::fprintf(stderr, "usage: compare MODEL.gguf own|masks|forced|exact CONSTRAINT MAX_TOKENS CONTEXT PROMPT.txt...\n");
        return 2;
    }
    try {
        return run(argc, argv);
    } catch (const std::exception & e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
