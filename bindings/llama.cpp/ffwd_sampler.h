// A llama_sampler that leaves only the tokens which a grammar of ffwd allows.
#pragma once

#include <ffwd.h>
#include <llama.h>

#include <vector>

// The tokens of a model: their bytes, which of them are no text, which end an answer, and the model's tokenizer.
// Make one for each model and keep it while grammars are compiled for it. The model must outlive it and all that
// was made from it. Sets `error` on failure, if it is not null, as ffwd_vocabulary_from_tokens does.
ffwd_status ffwd_vocabulary_of(const llama_model * model, ffwd_vocabulary ** out, ffwd_error ** error);

// The sampler, or null if the grammar is. Add it to a chain before the samplers that cut or choose. It removes
// forbidden candidates, so the samplers behind it have less to do; if none of the candidates is legal, all get a
// logit of minus infinity. After an end token it leaves end tokens only. Accepting a token that is not legal
// throws std::runtime_error, as llama.cpp's own grammar does. The grammar may be freed before the sampler is.
// Clones have the state of the original and go their own way. One thread at a time uses a sampler.
llama_sampler * ffwd_sampler_init(const ffwd_vocabulary * vocabulary, const ffwd_grammar * grammar);

// The matcher of such a sampler, for questions about its state. It belongs to the sampler.
ffwd_matcher * ffwd_sampler_matcher(const llama_sampler * sampler);
