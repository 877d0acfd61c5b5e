"""Constraints in transformers: a logits processor, and exact decoding in fewer forwards.

    >>> import ffwd, ffwd.hf                                                # doctest: +SKIP
    >>> vocabulary = ffwd.hf.vocabulary(model, tokenizer)
    >>> grammar = ffwd.Compiler(vocabulary).compile(ffwd.Constraint.json_schema(Invoice))
    >>> processor = ffwd.hf.LogitsProcessor(grammar)
    >>> model.generate(**inputs, logits_processor=[processor])
    >>> model.generate(**inputs, logits_processor=[processor], custom_generate=ffwd.hf.ExactDecoding())

The first call masks the logits of each step. The second writes the same tokens, and verifies
several at once: text without alternatives, and text copied from the prompt.

Needs torch and transformers: `pip install 'ffwd-llm[hf]'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import Vocabulary
from .exact import ExactDecoding, Statistics
from .processor import LogitsProcessor

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = ["ExactDecoding", "LogitsProcessor", "Statistics", "vocabulary"]


def vocabulary(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Vocabulary:
    """Return the vocabulary of a model: its tokens, its end tokens, the width of its logits.

    Args:
        model: The model. Its `generation_config.eos_token_id` is read, because these tokens end
            `generate`, and the size of its output embeddings.
        tokenizer: Its tokenizer, which must be a fast one.

    Raises:
        TypeError: The tokenizer is not a fast one.
        ffwd.Error: The tokenizer cannot be used, or does not fit the model.
    """
    head = model.get_output_embeddings()
    width = head.weight.shape[0] if head is not None else model.config.vocab_size
    return Vocabulary.from_transformers(
        tokenizer, logits_size=width, eos=model.generation_config.eos_token_id
    )
