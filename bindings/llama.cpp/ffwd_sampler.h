// A llama_sampler that leaves only the tokens which a grammar of ffwd allows.
#pragma once

#include <ffwd.hpp>
#include <llama.h>

// The tokens of a model: their bytes, which of them are no text, which end an answer, and the model's tokenizer.
// Make one for each model and keep it while grammars are compiled for it. The model must outlive it and all that
// was made from it. Throws ffwd::Error.
ffwd::Vocabulary ffwd_vocabulary_of(const llama_model * model);

// The sampler. Add it to a chain before the samplers that cut or choose. It removes forbidden candidates, so the
// samplers behind it have less to do; if none of the candidates is legal, all get a logit of minus infinity.
// After an end token it leaves end tokens only. Accepting a token that is not legal throws std::runtime_error, as
// llama.cpp's own grammar does. Neither argument is needed afterwards. A clone has the state of the original and
// goes its own way. One thread at a time uses a sampler.
llama_sampler * ffwd_sampler_init(const ffwd::Vocabulary & vocabulary, const ffwd::Grammar & grammar);

// The matcher of such a sampler, for questions about its state. Only the sampler may change it.
ffwd::Matcher & ffwd_sampler_matcher(const llama_sampler * sampler);

// A text in the model's tokens, and a token as text; empty for tokens that are never text.
ffwd::Tokens ffwd_encode(const llama_vocab * vocab, const std::string & text);
std::string ffwd_token_text(const llama_vocab * vocab, llama_token token);
