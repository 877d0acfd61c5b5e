// Checks the sampler and the decoder with a real model: check_sampler MODEL.gguf
//
// Texts of decoding with drafts equal those without only where llama.cpp rounds batches of one and of several tokens
// alike: with flash attention, and formats without kernels of their own for several rows. SmolLM2's Q4_1 is such a
// format; `--rounding` leaves out these comparisons for others.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "ffwd_decoder.h"

using tokens = std::vector<llama_token>;

static int failures = 0;

#define CHECK(condition)                                                          \
    do {                                                                          \
        if (!(condition)) {                                                       \
            std::printf("FAILED %s:%d: %s\n", __FILE__, __LINE__, #condition);    \
            failures++;                                                           \
        }                                                                         \
    } while (0)

static const char * SCHEMA = R"({"type":"object","properties":{"invoice_number":{"type":"string","maxLength":16},
 "vendor":{"type":"string","maxLength":30},"issue_date":{"type":"string","format":"date"},
 "currency":{"enum":["EUR","USD","GBP"]}},"required":["invoice_number","vendor","issue_date","currency"],
 "additionalProperties":false})";
static const char * TEXT = "Write the record of this invoice as JSON.\n\nINVOICE INV-20417\nBright Glacier Consulting, issued on "
                           "14 March 2024\nTotal: 1840.00 EUR.\n\n";

struct fixture {
    llama_model * model;
    llama_context * ctx;
    const llama_vocab * vocab;
    ffwd::Vocabulary vocabulary;
    ffwd::Grammar grammar;
    tokens prompt;

    explicit fixture(llama_model * model)
        : model(model), vocab(llama_model_get_vocab(model)), vocabulary(ffwd_vocabulary_of(model)),
          grammar(vocabulary, ffwd::Constraint("json_schema", SCHEMA)) {
        llama_context_params params = llama_context_default_params();
        params.n_ctx = 512;
        params.n_batch = 64;
        params.n_threads = params.n_threads_batch = 1;
        params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
        ctx = llama_init_from_model(model, params);
        prompt = ids(TEXT);
    }
    tokens ids(const std::string & text) const {
        tokens out(text.size() + 8);
        out.resize((size_t) llama_tokenize(vocab, text.data(), (int32_t) text.size(), out.data(), (int32_t) out.size(), false, false));
        return out;
    }
    llama_sampler * sampler() const { return ffwd_sampler_init(vocabulary, grammar); }
};

// The ids that the sampler leaves of a random part of the vocabulary in random order, or in order of the logits.
static tokens left(llama_sampler * sampler, tokens ids, bool sorted, bool & in_order) {
    std::vector<llama_token_data> data;
    for (size_t i = 0; i < ids.size(); i++) {
        data.push_back({ids[i], sorted ? -(float) i : (float) (i % 7), 0.0f});
    }
    llama_token_data_array array = {data.data(), data.size(), 0, sorted};
    llama_sampler_apply(sampler, &array);
    tokens out;
    in_order = array.sorted == sorted;
    for (size_t i = 0; i < array.size; i++) {
        if (array.data[i].logit != -INFINITY) {
            out.push_back(array.data[i].id);
        }
        in_order = in_order && (!sorted || i == 0 || array.data[i].logit < array.data[i - 1].logit);
    }
    return out;
}

// The mask against acceptance token by token, along a text.
static void masks_are_what_is_accepted(const fixture & f) {
    std::mt19937 random(1);
    llama_sampler * sampler = f.sampler();
    const tokens text = f.ids(R"({"invoice_number":"INV-1","vendor":"A \"B\" Ä","issue_date":"2024-03-14","currency":"EUR"})");
    size_t legal = 0, refused = 0;
    for (size_t step = 0; step <= text.size(); step++) {
        tokens some;
        for (int i = 0; i < 400; i++) {
            some.push_back((llama_token) (random() % (uint32_t) llama_vocab_n_tokens(f.vocab)));
        }
        some.push_back(step < text.size() ? text[step] : llama_vocab_eos(f.vocab));
        some.push_back(llama_vocab_eos(f.vocab));
        std::sort(some.begin(), some.end());
        some.erase(std::unique(some.begin(), some.end()), some.end());
        std::shuffle(some.begin(), some.end(), random);
        tokens wanted;
        for (llama_token token : some) {
            (ffwd_sampler_matcher(sampler).validate({(uint32_t) token}) == 1 ? legal : refused)++;
            if (ffwd_sampler_matcher(sampler).validate({(uint32_t) token}) == 1) {
                wanted.push_back(token);
            }
        }
        bool in_order = false;
        CHECK(left(sampler, some, false, in_order) == wanted && in_order);
        CHECK(left(sampler, some, true, in_order) == wanted && in_order);
        if (step < text.size()) {
            llama_sampler_accept(sampler, text[step]);
        }
    }
    CHECK(legal > 2 * text.size() && refused > legal);
    llama_sampler_free(sampler);
}

static void clones_resets_and_ends(const fixture & f) {
    llama_sampler * sampler = f.sampler();
    const tokens start = f.ids("{\"invoice_number\":\""), rest = f.ids("A\",\"vendor\":\"B\",\"issue_date\":\"2024-03-14\",\"currency\":\"EUR\"}");
    bool thrown = false;
    try {
        llama_sampler_accept(sampler, f.ids("x")[0]);
    } catch (const std::runtime_error &) {
        thrown = true;
    }
    CHECK(thrown);
    CHECK(ffwd_sampler_matcher(sampler).validate({(uint32_t) start[0]}) == 1); // nothing changed
    for (llama_token token : start) {
        llama_sampler_accept(sampler, token);
    }
    llama_sampler * copy = llama_sampler_clone(sampler);
    llama_sampler_reset(sampler);
    bool in_order;
    const tokens first = {start[0]};
    CHECK(left(sampler, first, false, in_order) == first);
    CHECK(left(copy, f.ids("}"), false, in_order) == f.ids("}")); // text, within the string
    for (llama_token token : rest) {
        llama_sampler_accept(copy, token);
    }
    const tokens two = {rest[0], llama_vocab_eos(f.vocab)}, end = {llama_vocab_eos(f.vocab)};
    CHECK(left(copy, two, false, in_order) == end);
    llama_sampler_accept(copy, end[0]);
    CHECK(ffwd_sampler_matcher(copy).is_finished());
    CHECK(left(copy, two, false, in_order) == end);
    llama_sampler_accept(copy, end[0]);
    llama_sampler_free(sampler);
    llama_sampler_free(copy);
}

static llama_sampler * chain_of(llama_sampler * sampler, int way) {
    llama_sampler * chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
    llama_sampler_chain_add(chain, sampler);
    if (way == 0) {
        llama_sampler_chain_add(chain, llama_sampler_init_greedy());
        return chain;
    }
    llama_sampler_chain_add(chain, llama_sampler_init_min_p(way == 2 ? 0.01f : 0.05f, 1));
    llama_sampler_chain_add(chain, llama_sampler_init_top_k(40));
    llama_sampler_chain_add(chain, llama_sampler_init_top_p(0.95f, 1));
    llama_sampler_chain_add(chain, llama_sampler_init_temp(way == 2 ? 1.8f : 0.9f));
    llama_sampler_chain_add(chain, llama_sampler_init_dist((uint32_t) way));
    return chain;
}

static tokens written(const fixture & f, int way, ffwd_decoder_options options, ffwd_decoder_stats & stats) {
    llama_sampler * sampler = f.sampler();
    llama_sampler * chain = chain_of(sampler, way);
    ffwd_decoder decoder(f.ctx, chain, sampler, f.prompt, options);
    tokens out;
    while (!decoder.ended() && out.size() < 300) {
        const tokens given = decoder.step();
        CHECK(!given.empty());
        out.insert(out.end(), given.begin(), given.end());
    }
    CHECK(decoder.ended());
    CHECK(ffwd_sampler_matcher(sampler).is_finished());
    stats = decoder.stats();
    CHECK(stats.tokens == (int32_t) out.size());
    llama_sampler_free(chain);
    return out;
}

static void drafts_change_nothing(const fixture & f, bool same_rounding) {
    for (int way = 0; way < 5; way++) {
        ffwd_decoder_options plain;
        plain.max_draft = 0;
        ffwd_decoder_stats plain_stats, stats;
        const tokens wanted = written(f, way, plain, plain_stats);
        CHECK(plain_stats.drafted == 0 && plain_stats.decodes >= plain_stats.tokens);
        CHECK(ffwd::Matcher(f.grammar).validate(ffwd::Tokens(wanted.begin(), wanted.end())) == wanted.size());
        for (int32_t most : {1, 5, 16, 63}) {
            for (bool copy : {false, true}) {
                ffwd_decoder_options options;
                options.max_draft = most, options.copy = copy;
                const tokens got = written(f, way, options, stats);
                CHECK(!same_rounding || got == wanted);
                CHECK(stats.accepted > 0 && stats.accepted <= stats.drafted && stats.decodes < stats.tokens);
            }
        }
        std::printf("way %d: %d tokens, %d forwards without drafts, %d with\n", way, stats.tokens, plain_stats.decodes, stats.decodes);
    }
}

static void the_cache_of_the_prompt_is_kept(const fixture & f) {
    ffwd_decoder_stats first, second;
    ffwd_decoder_options options;
    written(f, 0, options, first);
    options.cached = (int32_t) f.prompt.size(); // the last one is read anew
    const tokens again = written(f, 0, options, second);
    CHECK(second.decodes < second.tokens);
    CHECK(ffwd::Matcher(f.grammar).validate(ffwd::Tokens(again.begin(), again.end())) == again.size());
}

static void full_contexts_are_errors(const fixture & f) {
    llama_sampler * sampler = f.sampler();
    llama_sampler * chain = chain_of(sampler, 0);
    bool thrown = false;
    try {
        ffwd_decoder(f.ctx, chain, sampler, tokens(600, f.prompt[0])).step();
    } catch (const std::runtime_error &) {
        thrown = true;
    }
    CHECK(thrown);
    thrown = false;
    try {
        ffwd_decoder(f.ctx, chain, sampler, {});
    } catch (const std::invalid_argument &) {
        thrown = true;
    }
    CHECK(thrown);
    llama_sampler_free(chain);
    llama_memory_clear(llama_get_memory(f.ctx), true);
}

// Drafts in the model's own tokens: where the text is forced, they are those of the whole text.
static void forced_tokens_are_those_of_the_tokenizer(const fixture & f) {
    const std::string whole = "{\"invoice_number\":\"";
    const tokens ids = f.ids(whole);
    ffwd::Matcher matcher(f.grammar);
    const ffwd::Tokens forced = matcher.forced_tokens();
    CHECK(forced.size() > 1 && forced.size() <= ids.size());
    CHECK(std::equal(forced.begin(), forced.end(), ids.begin(), [](uint32_t a, llama_token b) { return a == (uint32_t) b; }));
    const tokens text = f.ids("naïve 🙂 x");
    const ffwd::Tokens encoded = f.vocabulary.encode("naïve 🙂 x");
    CHECK(llama_vocab_type(f.vocab) == LLAMA_VOCAB_TYPE_SPM || encoded == ffwd::Tokens(text.begin(), text.end()));
}

int main(int argc, char ** argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: check_sampler MODEL.gguf [--rounding]\n");
        return 2;
    }
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    llama_model * model = llama_model_load_from_file(argv[1], llama_model_default_params());
    if (!model) {
        std::fprintf(stderr, "%s cannot be loaded\n", argv[1]);
        return 1;
    }
    try {
        const fixture f(model);
        masks_are_what_is_accepted(f);
        clones_resets_and_ends(f);
        forced_tokens_are_those_of_the_tokenizer(f);
        drafts_change_nothing(f, argc < 3);
        the_cache_of_the_prompt_is_kept(f);
        full_contexts_are_errors(f);
        llama_free(f.ctx);
    } catch (const std::exception & e) {
        std::printf("FAILED: %s\n", e.what());
        failures++;
    }
    llama_model_free(model);
    std::printf("%d checks failed\n", failures);
    return failures > 0;
}
