// Writes the records of texts as JSON of a schema: an example of the sampler and of decoding with drafts.
//
//   extract MODEL.gguf SCHEMA.json [options] TEXT.txt...
//
// A record a line goes to the standard output, what it took to the standard error.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "ffwd_decoder.h"

static const char * USAGE = "usage: extract MODEL.gguf SCHEMA.json [options] TEXT.txt...\n"
                            "  --plain            one forward for each token, without drafts\n"
                            "  --threads N        threads of the model (1)\n"
                            "  --max-tokens N     most tokens of a record (512)\n"
                            "  --context N        tokens of the prompt and the record (2048)\n"
                            "  --temperature T    sample with this temperature (0: the most probable token)\n"
                            "  --seed N           of the sampling (0)\n";

struct arguments {
    std::vector<std::string> files; // the model, the schema, texts
    bool plain = false;
    int threads = 1, max_tokens = 512, context = 2048;
    float temperature = 0;
    uint32_t seed = 0;
};

static arguments parse(int argc, char ** argv) {
    arguments a;
    for (int i = 1; i < argc; i++) {
        const std::string name = argv[i];
        if (name.rfind("--", 0) != 0) {
            a.files.push_back(name);
        } else if (name == "--plain") {
            a.plain = true;
        } else if (i + 1 == argc) {
            throw std::invalid_argument(name + " has no value");
        } else if (name == "--threads") {
            a.threads = std::atoi(argv[++i]);
        } else if (name == "--max-tokens") {
            a.max_tokens = std::atoi(argv[++i]);
        } else if (name == "--context") {
            a.context = std::atoi(argv[++i]);
        } else if (name == "--temperature") {
            a.temperature = (float) std::atof(argv[++i]);
        } else if (name == "--seed") {
            a.seed = (uint32_t) std::atoi(argv[++i]);
        } else {
            throw std::invalid_argument(name + " is not known");
        }
    }
    if (a.threads < 1 || a.max_tokens < 1 || a.context < 1) {
        throw std::invalid_argument("threads, tokens and context must be at least 1");
    }
    if (a.files.size() < 3) {
        throw std::invalid_argument("a model, a schema and a text are needed");
    }
    return a;
}

static std::string read(const std::string & path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        throw std::runtime_error(path + " cannot be read");
    }
    return {std::istreambuf_iterator<char>(file), {}};
}

// Frees what llama.cpp made.
template <auto function> struct release {
    template <class T> void operator()(T * object) const { function(object); }
};
template <class T, auto function> using owned = std::unique_ptr<T, release<function>>;

// The prompt as the model's own template has it. What the texts share comes first.
static std::vector<llama_token> prompt_of(const llama_model * model, const std::string & schema, const std::string & text) {
    const llama_vocab * vocab = llama_model_get_vocab(model);
    const std::string question = "Write the record of this text as JSON.\nSchema: " + schema + "\n\n" + text;
    const llama_chat_message message = {"user", question.c_str()};
    std::string prompt(2 * question.size() + 1024, '\0');
    const char * form = llama_model_chat_template(model, nullptr);
    const int32_t size = form ? llama_chat_apply_template(form, &message, 1, true, prompt.data(), (int32_t) prompt.size()) : -1;
    prompt = size < 0 || (size_t) size > prompt.size() ? question + "\n\n" : prompt.substr(0, (size_t) size);
    std::vector<llama_token> tokens(prompt.size() + 8);
    const int32_t n = llama_tokenize(vocab, prompt.data(), (int32_t) prompt.size(), tokens.data(), (int32_t) tokens.size(), true, true);
    if (n < 0) {
        throw std::runtime_error("the prompt cannot be tokenised");
    }
    tokens.resize((size_t) n);
    return tokens;
}

static llama_sampler * chain_of(llama_sampler * constraint, const arguments & a) {
    llama_sampler * chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
    llama_sampler_chain_add(chain, constraint); // the chain frees it
    if (a.temperature > 0) {
        llama_sampler_chain_add(chain, llama_sampler_init_top_k(40));
        llama_sampler_chain_add(chain, llama_sampler_init_temp(a.temperature));
        llama_sampler_chain_add(chain, llama_sampler_init_dist(a.seed));
    } else {
        llama_sampler_chain_add(chain, llama_sampler_init_greedy());
    }
    return chain;
}

static size_t common_start(const std::vector<llama_token> & a, const std::vector<llama_token> & b) {
    size_t n = 0;
    while (n < a.size() && n < b.size() && a[n] == b[n]) {
        n++;
    }
    return n;
}

static std::string text_of(const llama_vocab * vocab, const std::vector<llama_token> & tokens) {
    std::string text(16 * tokens.size() + 64, '\0');
    int32_t size = llama_detokenize(vocab, tokens.data(), (int32_t) tokens.size(), text.data(), (int32_t) text.size(), false, false);
    if (size < 0) {
        text.resize((size_t) -size);
        size = llama_detokenize(vocab, tokens.data(), (int32_t) tokens.size(), text.data(), (int32_t) text.size(), false, false);
    }
    return text.substr(0, (size_t) size);
}

static void run(const arguments & a) {
    llama_log_set([](ggml_log_level level, const char * text, void *) {
        if (level == GGML_LOG_LEVEL_ERROR) {
            std::fputs(text, stderr);
        }
    }, nullptr);
    llama_backend_init();
    owned<llama_model, llama_model_free> model(llama_model_load_from_file(a.files[0].c_str(), llama_model_default_params()));
    if (!model) {
        throw std::runtime_error(a.files[0] + " cannot be loaded");
    }
    llama_context_params params = llama_context_default_params();
    params.n_ctx = (uint32_t) a.context;
    params.n_threads = params.n_threads_batch = a.threads;
    // Batches of one and of several tokens round alike with it, for most formats.
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    owned<llama_context, llama_free> ctx(llama_init_from_model(model.get(), params));
    if (!ctx) {
        throw std::runtime_error("no context for " + a.files[0]);
    }

    const std::string schema = read(a.files[1]);
    const ffwd::Vocabulary vocabulary = ffwd_vocabulary_of(model.get());
    const ffwd::Grammar grammar(vocabulary, ffwd::Constraint("json_schema", schema));
    for (size_t i = 0; const char * warning = ffwd_grammar_warning(grammar.get(), i); i++) {
        std::fprintf(stderr, "warning: %s\n", warning);
    }

    llama_sampler * sampler = ffwd_sampler_init(vocabulary, grammar);
    owned<llama_sampler, llama_sampler_free> chain(chain_of(sampler, a));
    std::vector<llama_token> before;
    for (size_t i = 2; i < a.files.size(); i++) {
        const auto start = std::chrono::steady_clock::now();
        const std::vector<llama_token> prompt = prompt_of(model.get(), schema, read(a.files[i]));
        ffwd_decoder_options options;
        options.max_draft = a.plain ? 0 : options.max_draft;
        options.cached = (int32_t) common_start(before, prompt);
        before = prompt;
        llama_sampler_reset(chain.get());
        ffwd_decoder decoder(ctx.get(), chain.get(), sampler, prompt, options);
        std::vector<llama_token> record;
        while (!decoder.ended() && (int) record.size() < a.max_tokens) {
            const std::vector<llama_token> given = decoder.step();
            record.insert(record.end(), given.begin(), given.end());
        }
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
        std::printf("%s\n", text_of(llama_model_get_vocab(model.get()), record).c_str());
        const ffwd_decoder_stats & s = decoder.stats();
        std::fprintf(stderr, "%s: %zu tokens of the prompt, %d tokens in %d forwards (%d of %d drafted accepted), %.2f s%s\n",
                     a.files[i].c_str(), prompt.size(), s.tokens, s.decodes, s.accepted, s.drafted, seconds.count(),
                     decoder.ended() ? "" : ", cut off");
    }
}

int main(int argc, char ** argv) {
    try {
        run(parse(argc, argv));
    } catch (const std::invalid_argument & e) {
        std::fprintf(stderr, "%s\n%s", e.what(), USAGE);
        return 2;
    } catch (const std::exception & e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
    return 0;
}
