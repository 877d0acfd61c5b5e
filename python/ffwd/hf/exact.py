"""`ExactDecoding`: what masked `generate` writes, in fewer forwards.

Pass it as `custom_generate`. Each forward verifies a draft: the text that the grammar leaves no
choice about, and a copy of the prompt where the last tokens occur there. Each position is masked
and chosen as in `generate`, by the same processors and the same random numbers. The first token that
differs from the draft replaces it, and the cache of keys and values is cropped.

# Cost

One forward of several positions in place of several forwards. A position that is rejected costs its
share of a forward. The length of copies follows what was accepted before. On a device the masks of all
positions are made during the forward if tokens are not sampled and no other processor sees them.

# Alternatives considered

The drafts of transformers itself (`prompt_lookup_num_tokens`) do not know the grammar: they end
where a token is not legal, and know no forced text. Drafts for several rows at once need holes in the
cache of rows that accept less. They were left out, because attention over a window then counts
wrongly.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.generation import GenerateDecoderOnlyOutput

from ..copies import Copies, CopyLength, Statistics
from .processor import LogitsProcessor, processor_of

# What transformers calls the cache of keys and values, the newest name first.
CACHE_NAMES = ["cache", "past_key_values"]


class ExactDecoding:
    """A `custom_generate` that verifies several tokens in one forward.

    `generate` must have one `ffwd.hf.LogitsProcessor` in `logits_processor`. The result is that of
    the same call without `custom_generate`, greedy or sampled, up to differences between forwards of
    one and of several positions. Those matter where two tokens are nearly equal.

    Args:
        max_draft: Most tokens to verify in one forward, at least 1.
        copy: Draft copies of the prompt and of the text so far.
        streamer: A streamer of transformers. `generate` does not pass its own to a
            `custom_generate`, nor the tokenizer that `stop_strings` needs: pass
            `stopping_criteria=[StopStringCriteria(...)]` instead.

    Attributes:
        statistics: Those of the last generation.

    Raises:
        ValueError: `max_draft` is not positive.
    """

    def __init__(self, *, max_draft: int = 16, copy: bool = True, streamer: Any = None) -> None:
        if max_draft < 1:
            raise ValueError(f"max_draft is {max_draft}, and must be at least 1")
        self.max_draft = max_draft
        self.copy = copy
        self.streamer = streamer
        self.statistics = Statistics()

    def __call__(
        self,
        model: Any,
        input_ids: torch.LongTensor,
        logits_processor: Any = None,
        stopping_criteria: Any = None,
        generation_config: Any = None,
        **model_kwargs: Any,
    ) -> Any:
        """Generate; `generate` of transformers calls this.

        Args:
            input_ids: int64 of shape (1, length).

        Returns:
            int64 of shape (1, length + generated), or a `GenerateDecoderOnlyOutput` if
            `return_dict_in_generate` is set.

        Raises:
            ValueError: There is not exactly one processor or row, or the model or its cache does
                not serve.
        """
        processor = processor_of(logits_processor)
        run = _Run(self, model, input_ids, processor, generation_config, model_kwargs)
        with torch.no_grad():
            return run.generate(logits_processor, stopping_criteria)


class _Run:
    """One generation."""

    def __init__(
        self,
        settings: ExactDecoding,
        model: Any,
        input_ids: torch.LongTensor,
        processor: LogitsProcessor,
        config: Any,
        model_kwargs: dict[str, Any],
    ) -> None:
        self.cache_name = next((name for name in CACHE_NAMES if name in model_kwargs), CACHE_NAMES[0])
        self.cache = model_kwargs.pop(self.cache_name, None)
        _check(model, input_ids, config, self.cache)
        self.settings, self.model, self.config = settings, model, config
        self.processor = processor
        self.ids = input_ids
        self.prompt_length = input_ids.shape[1]
        if hasattr(self.cache, "activate_past_recording"):
            self.cache.activate_past_recording()
        self.mask = model_kwargs.pop("attention_mask", None)
        self.positions = model_kwargs.pop("position_ids", None)
        for name in ("use_cache", "logits_to_keep", "cache_position"):
            model_kwargs.pop(name, None)
        # Other inputs, such as those of pictures, belong to the prompt.
        self.prompt_inputs = model_kwargs
        self.copies = Copies()
        self.copy_length = CopyLength(settings.max_draft)
        self.forced = 0
        settings.statistics = self.statistics = Statistics()
        self.scores: list[torch.Tensor] = []
        self.logits: list[torch.Tensor] = []

    def generate(self, logits_processor: Any, stopping_criteria: Any) -> Any:
        # `follow` starts from nothing where the prompt is another one than that of the last generation.
        self.processor.reset()
        streamer = self.settings.streamer
        if streamer is not None:
            streamer.put(self.ids.cpu())
        ended = False
        while not ended:
            draft = self._draft()
            logits = self._forward(draft)
            before = self.ids.shape[1]
            ended = self._verify(draft, logits, logits_processor, stopping_criteria)
            kept = self.ids.shape[1] - before
            # The last token that was chosen is not in the cache yet.
            self._crop(len(draft) + 1 - kept)
            if streamer is not None:
                for token in self.ids[0, before:]:
                    streamer.put(token.reshape(1).cpu())
        if streamer is not None:
            streamer.end()
        return self._result()

    def _draft(self) -> list[int]:
        """Return tokens to verify: forced ones, then a copy."""
        matcher = self.processor.follow(self.ids, most=self.settings.max_draft + 1)[0].fork()
        room = self.config.max_length - self.ids.shape[1] - 1
        limit = max(0, min(self.settings.max_draft, room))
        # The prompt's last token is no part of the output: nothing of the output joins it.
        last = int(self.ids[0, -1]) if self.ids.shape[1] > self.prompt_length else None
        draft = matcher.forced_draft(limit, last)
        self.forced = len(draft)
        if self.settings.copy and len(draft) < limit:
            self.copies.extend(self.ids[0, len(self.copies) :].tolist())
            copy = self.copies.find(draft, min(limit - len(draft), self.copy_length.length))
            matcher.accept_tokens(draft)
            draft += copy[: matcher.validate_tokens(copy)]
        self.statistics.drafted += len(draft)
        return draft

    def _forward(self, draft: list[int]) -> torch.Tensor:
        """Run the model on what the cache lacks and the draft.

        Returns:
            float32 of shape (len(draft) + 1, width).
        """
        cached = self.cache.get_seq_length()
        new = self.ids[:, cached:]
        if draft:
            tail = torch.tensor([draft], dtype=self.ids.dtype, device=self.ids.device)
            new = torch.cat((new, tail), dim=1)
        length = cached + new.shape[1]
        inputs: dict[str, Any] = {"input_ids": new}
        if self.mask is not None:
            missing = length - self.mask.shape[1]
            ones = self.mask.new_ones((1, missing))
            inputs["attention_mask"] = torch.cat((self.mask, ones), dim=1)
        if self.positions is not None:
            known = self.positions[..., cached:]
            missing = new.shape[1] - known.shape[-1]
            steps = torch.arange(1, missing + 1, device=known.device)
            last = self.positions[..., -1:] + max(0, cached - self.positions.shape[-1])
            inputs["position_ids"] = torch.cat((known, last + steps), dim=-1)
        if self.statistics.forwards == 0:
            inputs |= self.prompt_inputs
        self.statistics.forwards += 1
        if self.model._supports_logits_to_keep():
            inputs["logits_to_keep"] = len(draft) + 1
        inputs[self.cache_name] = self.cache
        outputs = self.model(**inputs, use_cache=True, return_dict=True)
        return outputs.logits[0, -len(draft) - 1 :].to(torch.float32, copy=True)

    def _verify(
        self, draft: list[int], logits: torch.Tensor, logits_processor: Any, stopping_criteria: Any
    ) -> bool:
        """Choose a token at each position until one differs from the draft.

        Returns:
            True if the generation ends.
        """
        together = self._choose_together(draft, logits, logits_processor)
        for position in range(len(draft) + 1):
            row = logits[position : position + 1]
            if together is not None:
                scores, token = (rows[position : position + 1] for rows in together[:2])
                chosen = together[2][position]
            else:
                scores = logits_processor(self.ids, row)
                if self.config.do_sample:
                    token = torch.multinomial(scores.softmax(dim=-1), num_samples=1)
                else:
                    token = scores.argmax(dim=-1, keepdim=True)
                chosen = token.item() if position < len(draft) else None
            self._keep(scores, row)
            self.ids = torch.cat((self.ids, token), dim=1)
            self.statistics.tokens += 1
            as_drafted = position < len(draft) and chosen == draft[position]
            self.statistics.accepted += as_drafted
            if bool(stopping_criteria(self.ids, None).all()):
                return True
            if not as_drafted:
                break
        if position >= self.forced:
            self.copy_length.learn(len(draft) - self.forced, position - self.forced)
        return False

    def _choose_together(
        self, draft: list[int], logits: torch.Tensor, logits_processor: Any
    ) -> tuple[torch.Tensor, torch.Tensor, list[int]] | None:
        """Choose the tokens of all positions in one operation, where they depend on nothing else.

        The masks are made while a device computes the logits, and the device is waited for once.

        Returns:
            The masked logits, the tokens of shape (len(draft) + 1, 1), and the same as a list; or
            None if tokens are sampled or other processors see them.
        """
        if self.config.do_sample or len(logits_processor) > 1:
            return None
        scores = self.processor.mask_draft(draft, logits)
        tokens = scores.argmax(dim=-1, keepdim=True)
        return scores, tokens, tokens.flatten().tolist()

    def _crop(self, count: int) -> None:
        """Remove the keys and values of the last positions from the cache."""
        if count > 0 or hasattr(self.cache, "activate_past_recording"):
            self.cache.crop(-count)

    def _keep(self, scores: torch.Tensor, logits: torch.Tensor) -> None:
        if self.config.return_dict_in_generate:
            if self.config.output_scores:
                self.scores.append(scores)
            if self.config.output_logits:
                self.logits.append(logits)

    def _result(self) -> Any:
        if not self.config.return_dict_in_generate:
            return self.ids
        return GenerateDecoderOnlyOutput(
            sequences=self.ids,
            scores=tuple(self.scores) if self.config.output_scores else None,
            logits=tuple(self.logits) if self.config.output_logits else None,
            **{self.cache_name: self.cache},
        )


def _check(model: Any, input_ids: torch.Tensor, config: Any, cache: Any) -> None:
    if model.config.is_encoder_decoder:
        raise ValueError("exact decoding serves decoders only; use ffwd.hf.LogitsProcessor alone")
    if len(input_ids) != 1:
        raise ValueError(
            f"exact decoding takes one sequence, not {len(input_ids)}; "
            "for batches, beams and several results use ffwd.hf.LogitsProcessor alone"
        )
    if config.output_attentions or config.output_hidden_states:
        raise ValueError("exact decoding returns no attentions and no hidden states")
    if not hasattr(cache, "crop"):
        raise ValueError(
            f"exact decoding needs a cache that can be cropped, not {type(cache).__name__}; "
            "leave use_cache and cache_implementation at their defaults"
        )
