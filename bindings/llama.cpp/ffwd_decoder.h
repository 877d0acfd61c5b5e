// Decoding with drafts: several tokens in one llama_decode, and the answer of plain decoding.
//
// A draft is the text that the grammar leaves no choice about, in the model's own tokens, the rest of a value as the
// prompt has it, and so on. The sampler chooses at each position of the draft, with the mask of that position, as it
// would without one. The first token that differs replaces the draft's, and the cache is cut back. So an answer is
// the same, greedy or sampled, up to the rounding of batches of other sizes.
//
// Models whose memory cannot be cut back (recurrent and hybrid ones) are decoded without drafts.
#pragma once

#include <map>

#include "ffwd_copies.h"
#include "ffwd_sampler.h"

struct ffwd_decoder_options {
    int32_t max_draft = 16;  // most tokens to verify in one llama_decode; 0 is plain decoding
    bool copy = true;        // draft values that the prompt has, too
    llama_seq_id seq = 0;    // the sequence of the cache
    int32_t cached = 0;      // how many of the prompt's first tokens the cache has; others in it are removed
};

struct ffwd_decoder_stats {
    int32_t decodes = 0;  // calls of llama_decode, those of the prompt included
    int32_t tokens = 0;   // tokens of the answer, the end token included
    int32_t drafted = 0;  // tokens that were drafted
    int32_t accepted = 0; // drafted tokens that the sampler chose, too
};

class ffwd_decoder {
public:
    // `chain` chooses tokens and ends in a sampler that selects one; it holds `constraint`, which is of
    // ffwd_sampler_init. Both and the context must outlive this. Throws std::invalid_argument for an empty prompt.
    ffwd_decoder(llama_context * ctx, llama_sampler * chain, llama_sampler * constraint,
                 std::vector<llama_token> prompt, ffwd_decoder_options options = {});
    ~ffwd_decoder();
    ffwd_decoder(const ffwd_decoder &) = delete;
    ffwd_decoder & operator=(const ffwd_decoder &) = delete;

    // One forward: the tokens that it gave, at least one. Throws std::runtime_error if llama_decode fails or the
    // context is full. Nothing may be asked for behind an end token.
    std::vector<llama_token> step();

    // True if the last token is an end token.
    bool ended() const;

    const ffwd_decoder_stats & stats() const { return counts; }

private:
    std::vector<llama_token> draft();
    bool add_forced(ffwd::Matcher & state, ffwd::Tokens & draft, size_t limit) const;
    bool add_copy(ffwd::Matcher & state, ffwd::Tokens & draft, size_t limit) const;
    ffwd::Tokens tokens_behind(int64_t last, const std::string & bytes) const;
    ffwd::Tokens as_written(const ffwd::Tokens & tokens) const;
    int64_t last_of(const ffwd::Tokens & draft) const;
    int32_t decode(const std::vector<llama_token> & tokens, int32_t rows);
    void cut();
    void learn(int32_t copied, int32_t accepted);
    void learn_split(llama_token drafted, llama_token chosen);

    llama_context * ctx;
    llama_sampler * chain;
    ffwd::Matcher & matcher;
    const llama_vocab * vocab;
    ffwd_decoder_options options;
    llama_batch batch;
    std::vector<llama_token> text; // the prompt and the answer
    ffwd_copies copies;
    std::map<uint32_t, uint32_t> splits; // tokens for which the model began with a shorter one
    size_t prompt_size;
    size_t cached;         // tokens of `text` in the cache
    int32_t forced = 0;    // first tokens of the last draft, which the grammar forced
    int32_t copy_size = 12; // tokens to copy next: more after copies that were right
    int32_t failures = 0;  // copies in a row of which nothing was right
    int32_t pause = 0;     // forwards without a copy
    ffwd_decoder_stats counts;
};
