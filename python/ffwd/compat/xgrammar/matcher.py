"""`GrammarMatcher`, its batch, and the functions on bitmasks."""

from __future__ import annotations

import time
import warnings
from typing import Any

import ffwd

from ._arrays import bitmask_shape, mask_elsewhere, mask_on_cpu, torch_bitmask
from .compiler import CompiledGrammar

_BACKENDS = ("auto", "cpu", "cuda", "triton", "torch_compile", "torch_native")


def get_bitmask_shape(batch_size: int, vocab_size: int) -> tuple[int, int]:
    """Return the shape of a bitmask: (batch_size, ceil(vocab_size / 32))."""
    return bitmask_shape(batch_size, vocab_size)


def allocate_token_bitmask(batch_size: int, vocab_size: int) -> Any:
    """Return a torch tensor, int32 of shape (batch_size, ceil(vocab_size / 32)), all bits set."""
    return torch_bitmask(batch_size, vocab_size)


def reset_token_bitmask(bitmask: Any) -> None:
    """Set all bits."""
    bitmask.fill_(-1)


def apply_token_bitmask_inplace(
    logits: Any,
    bitmask: Any,
    *,
    vocab_size: int | None = None,
    indices: list[int] | None = None,
    backend: str = "auto",
) -> None:
    """Set the logits of tokens that are not legal to minus infinity.

    On the CPU this is the kernel of `ffwd`; elsewhere an expression of torch, whatever the backend.

    Args:
        logits: Float tensor of shape (batch, width) or (width,).
        bitmask: int32 of shape (rows, ceil(width / 32)) or one row, on the same device.
        vocab_size: Only change that many logits; default the smaller of both widths.
        indices: The rows of both that are used; default all.
        backend: Only checked.

    Raises:
        ValueError: The devices differ, or a shape, a type or the backend is another one.
    """
    if bitmask.device != logits.device:
        raise ValueError(f"logits are on {logits.device}, the bitmask is on {bitmask.device}")
    if backend not in _BACKENDS:
        raise ValueError(f"backend is {backend!r}; expected one of {', '.join(_BACKENDS)}")
    masked = bitmask.shape[-1] * 32
    if vocab_size is not None:
        logits = logits[..., :vocab_size]
    elif masked < logits.shape[-1]:
        warnings.warn(
            f"the bitmask has {masked} tokens, logits have {logits.shape[-1]}; the others are left "
            "unmasked",
            stacklevel=2,
        )
    if logits.device.type == "cpu":
        mask_on_cpu(logits, bitmask, None if indices is None else list(indices))
    elif indices is None:
        mask_elsewhere(logits, bitmask)
    else:
        rows = logits[indices]
        mask_elsewhere(rows, bitmask[indices])
        logits[indices] = rows


class GrammarMatcher:
    """The state of one generation.

    Args:
        compiled_grammar: The grammar.
        override_stop_tokens: Ids that end the generation, instead of those of the tokenizer.
        terminate_without_stop_token: The output ends as soon as it is complete.
        max_rollback_tokens: Deprecated: any number of tokens can be taken back.
        default_temperature: Only returned by `temperature`.

    Raises:
        ValueError: The grammar is not compiled.
        RuntimeError: A stop token is out of range.
    """

    def __init__(
        self,
        compiled_grammar: CompiledGrammar,
        *,
        override_stop_tokens: int | list[int] | None = None,
        terminate_without_stop_token: bool = False,
        max_rollback_tokens: int = -1,
        default_temperature: float | None = None,
    ) -> None:
        if not isinstance(compiled_grammar, CompiledGrammar):
            raise ValueError("the grammar is not compiled; see GrammarCompiler")
        if max_rollback_tokens != -1:
            warnings.warn(
                "max_rollback_tokens is deprecated: there is no limit",
                DeprecationWarning,
                stacklevel=2,
            )
        info = compiled_grammar.tokenizer_info
        stops = override_stop_tokens
        stops = (
            info.stop_token_ids if stops is None else [stops] if isinstance(stops, int) else stops
        )
        self._stops = () if terminate_without_stop_token else tuple(stops)
        self._named_stops = list(stops)
        self._width = info.vocab_size
        self._hidden = info._hidden
        self._without_stop = terminate_without_stop_token
        self._temperature = default_temperature
        if any(not 0 <= token < self._width for token in self._stops):
            raise RuntimeError(f"override_stop_tokens are {stops}, beyond {self._width} tokens")
        self._matcher = compiled_grammar.for_stops(self._stops).matcher()
        # Where texts were accepted: (tokens before, bytes). Each is one step of `rollback`.
        self._texts: list[tuple[int, int]] = []

    def accept_token(self, token_id: int, *, debug_print: bool = False) -> bool:
        """Advance by a token. Return False, and change nothing, if it is not legal."""
        if not 0 <= token_id < self._width:
            return False
        return self._matcher.accept_token(token_id)

    def accept_string(self, input_str: str | bytes, *, debug_print: bool = False) -> bool:
        """Advance by a text, which is one step of `rollback`. Return False if it is not legal."""
        before = self._matcher.num_accepted
        if self._matcher.is_terminated() or not self._matcher.accept_string(input_str):
            return False
        self._texts.append((before, self._matcher.num_accepted - before))
        return True

    def fill_next_token_bitmask(
        self, bitmask: Any, index: int = 0, *, debug_print: bool = False
    ) -> bool:
        """Write the legal tokens into a row of a bitmask.

        Returns:
            True: the row is to be applied.

        Raises:
            RuntimeError: An end token was accepted.
            ValueError, TypeError: The bitmask is of another shape, type or device.
        """
        if self._matcher.is_terminated():
            raise RuntimeError("the matcher has terminated: there is no next token")
        if self._hidden:
            self._fill_narrow(bitmask, index)
        else:
            self._matcher.fill_next_token_bitmask(bitmask, index)
        return True

    def _fill_narrow(self, bitmask: Any, index: int) -> None:
        """Fill a row that is narrower than the vocabulary, which has bytes after its end."""
        row = ffwd.allocate_token_bitmask(1, self._matcher.vocabulary)
        self._matcher.fill_next_token_bitmask(row)
        words = row.tolist()[0][: -(-self._width // 32)]
        if self._width % 32:
            low = words[-1] & ((1 << self._width % 32) - 1)
            words[-1] = low
        target = bitmask if len(bitmask.shape) == 1 else bitmask[index]
        if hasattr(bitmask, "new_tensor"):
            target[: len(words)] = bitmask.new_tensor(words)
        else:
            target[: len(words)] = words

    def find_jump_forward_string(self) -> str:
        """Return the text that has no alternative; empty if there is a choice."""
        return self._matcher.find_jump_forward_string()

    def rollback(self, num_tokens: int = 1) -> None:
        """Take back tokens and texts.

        Raises:
            RuntimeError: There were fewer.
        """
        if not self._texts:
            steps = num_tokens
        else:
            steps, rest = 0, num_tokens
            while rest > 0:
                at = self._matcher.num_accepted - steps
                if self._texts and sum(self._texts[-1]) == at:
                    steps += self._texts.pop()[1]
                else:
                    steps += 1
                rest -= 1
        try:
            self._matcher.rollback(steps if num_tokens >= 0 else num_tokens)
        except ValueError as error:
            raise RuntimeError(str(error)) from error

    def is_terminated(self) -> bool:
        """True if a stop token was accepted; without stop tokens, if the output is complete."""
        if self._without_stop:
            return self._matcher.is_accepting()
        return self._matcher.is_terminated()

    def is_completed(self) -> bool:
        """True if the output is complete, whether or not a stop token was accepted."""
        return self._matcher.is_accepting() or self._matcher.is_terminated()

    def reset(self) -> None:
        """Return to the start."""
        self._matcher.reset()
        self._texts.clear()

    def fork(self) -> GrammarMatcher:
        """Return an independent copy."""
        other = GrammarMatcher.__new__(GrammarMatcher)
        other.__dict__.update(self.__dict__)
        other._matcher = self._matcher.fork()
        other._texts = list(self._texts)
        return other

    def get_captures(self, *, deduplicate: bool = True) -> list[tuple[str, bytes]]:
        """Return nothing: grammars with captures are refused."""
        return []

    @property
    def max_rollback_tokens(self) -> int:
        """-1: any number of tokens can be taken back."""
        return -1

    @property
    def temperature(self) -> float | None:
        """The default temperature: no rule has one of its own."""
        return self._temperature

    @property
    def stop_token_ids(self) -> list[int]:
        """The ids that end the generation."""
        return list(self._named_stops)

    @property
    def matcher(self) -> ffwd.Matcher:
        """The matcher of `ffwd`."""
        return self._matcher

    def _debug_print_internal_state(self) -> str:
        return f"{self._matcher!r} at {self._matcher.path() or '/'}"

    def traverse_draft_tree(
        self,
        retrieve_next_token: Any,
        retrieve_next_sibling: Any,
        draft_tokens: Any,
        token_bitmask: Any,
        time_threshold: float = -1.0,
        temperatures: Any = None,
    ) -> bool:
        """Fill a row for each node of a tree of drafted tokens. Node 0 is the last token.

        Args:
            retrieve_next_token: First child of each node, -1 for none.
            retrieve_next_sibling: Next sibling of each node, -1 for none.
            draft_tokens: Token of each node; that of node 0 was accepted already.
            token_bitmask: int32 of shape (nodes, words).
            time_threshold: The most seconds, if positive.
            temperatures: One float for each node, filled with the default temperature or -1.

        Returns:
            False if time ran out. The row of a token that is not legal has no bit; rows of nodes
            below it are not changed.

        Raises:
            RuntimeError: The tensors are of other shapes or types, or are no tree.
        """
        children, siblings = tree_edges(
            retrieve_next_token, retrieve_next_sibling, draft_tokens, token_bitmask
        )
        tokens = draft_tokens.tolist()
        end = time.monotonic() + time_threshold
        if temperatures is not None:
            temperatures.fill_(-1.0)
        # A node, or the number of tokens to take back.
        todo: list[tuple[str, int]] = [("visit", 0)]
        accepted = 0
        while todo:
            what, node = todo.pop()
            if what == "back":
                self._matcher.rollback(1)
                accepted -= 1
                continue
            if time_threshold > 0 and time.monotonic() > end:
                self._matcher.rollback(accepted)
                return False
            if node and siblings[node] >= 0:
                todo.append(("visit", siblings[node]))
            if node and not self.accept_token(tokens[node]):
                token_bitmask[node].fill_(0)
                continue
            if node:
                accepted += 1
                todo.append(("back", 0))
            if not self._matcher.is_terminated():
                self.fill_next_token_bitmask(token_bitmask, node)
            if temperatures is not None and self._temperature is not None:
                temperatures[node] = self._temperature
            if children[node] >= 0:
                todo.append(("visit", children[node]))
        return True


class BatchGrammarMatcher:
    """The bitmasks of many matchers in one call.

    Args:
        max_threads: Has no effect: large batches use the threads of `ffwd.fill_batch`.
    """

    def __init__(self, max_threads: int | str = "auto") -> None:
        if max_threads != "auto" and (not isinstance(max_threads, int) or max_threads < 1):
            raise ValueError(
                f"max_threads is {max_threads!r}; expected 'auto' or a positive number"
            )

    def batch_fill_next_token_bitmask(
        self,
        matchers: list[GrammarMatcher],
        bitmask: Any,
        indices: list[int] | None = None,
        debug_print: bool = False,
    ) -> None:
        """Write the legal tokens of each matcher into its row; default row i for matcher i.

        Raises:
            RuntimeError: The lists differ in length, or a matcher has terminated.
            ValueError, TypeError: The bitmask is of another shape, type or device.
        """
        rows = list(range(len(matchers))) if indices is None else list(indices)
        _same_length(matchers, rows, "indices")
        if any(matcher._matcher.is_terminated() for matcher in matchers):
            raise RuntimeError("a matcher has terminated: there is no next token")
        if any(matcher._hidden for matcher in matchers):
            for matcher, row in zip(matchers, rows):
                matcher.fill_next_token_bitmask(bitmask, row)
        else:
            ffwd.fill_batch([matcher._matcher for matcher in matchers], bitmask, rows)

    @staticmethod
    def batch_fill_temperature(
        matchers: list[GrammarMatcher], temperatures: Any, indices: list[int] | None = None
    ) -> None:
        """Write the default temperature of each matcher, or -1."""
        rows = list(range(len(matchers))) if indices is None else list(indices)
        _same_length(matchers, rows, "indices")
        for matcher, row in zip(matchers, rows):
            temperatures[row] = -1.0 if matcher.temperature is None else matcher.temperature

    @staticmethod
    def batch_accept_token(
        matchers: list[GrammarMatcher], tokens: list[int], debug_print: bool = False
    ) -> list[bool]:
        """Advance each matcher by its token. Return which tokens were legal."""
        _same_length(matchers, tokens, "tokens")
        return [matcher.accept_token(token) for matcher, token in zip(matchers, tokens)]

    @staticmethod
    def batch_accept_string(
        matchers: list[GrammarMatcher], strings: list[str | bytes], debug_print: bool = False
    ) -> list[bool]:
        """Advance each matcher by its text. Return which texts were legal."""
        _same_length(matchers, strings, "strings")
        return [matcher.accept_string(text) for matcher, text in zip(matchers, strings)]

    @staticmethod
    def batch_rollback(matchers: list[GrammarMatcher], num_tokens: list[int] | int = 1) -> None:
        """Take back tokens of each matcher."""
        numbers = [num_tokens] * len(matchers) if isinstance(num_tokens, int) else num_tokens
        _same_length(matchers, numbers, "num_tokens")
        for matcher, number in zip(matchers, numbers):
            matcher.rollback(number)


def _same_length(matchers: list[GrammarMatcher], values: Any, name: str) -> None:
    if len(matchers) != len(values):
        raise RuntimeError(f"{len(values)} {name} for {len(matchers)} matchers")


def tree_edges(
    next_token: Any, next_sibling: Any, tokens: Any, bitmask: Any
) -> tuple[list[int], list[int]]:
    """Return the first child and the next sibling of each node of a tree of drafted tokens.

    Raises:
        RuntimeError: They are of other shapes or types, or are no tree.
    """
    nodes = tokens.shape[0] if tokens.dim() == 1 else -1
    named = {"next token": next_token, "next sibling": next_sibling, "tokens": tokens}
    for name, tensor in named.items():
        if tuple(tensor.shape) != (nodes,) or str(tensor.dtype) != "torch.int64":
            raise RuntimeError(f"{name}: {tensor.dtype} of shape {tuple(tensor.shape)}")
    if bitmask.dim() != 2 or bitmask.shape[0] < nodes:
        raise RuntimeError(f"the bitmask has the shape {tuple(bitmask.shape)} for {nodes} nodes")
    children, siblings = next_token.tolist(), next_sibling.tolist()
    seen = set()
    for edge in (*children, *siblings):
        if edge == -1:
            continue
        if not 0 < edge < nodes or edge in seen:
            raise RuntimeError(f"node {edge} is out of range or has two parents")
        seen.add(edge)
    if nodes < 1 or siblings[0] != -1:
        raise RuntimeError("the root is missing or has a sibling")
    # Each node has one parent and the root none, so nodes that are not reached are in a cycle.
    todo, reached = [0], 0
    while todo:
        node = todo.pop()
        reached += 1
        todo += [edge for edge in (children[node], siblings[node]) if edge != -1]
    if reached < 1 + len(seen):
        raise RuntimeError("the tree has a cycle")
    return children, siblings
