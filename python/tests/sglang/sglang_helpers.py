"""SGLang's base classes: its own where SGLang is installed, otherwise stand-ins of their contract.

Importing it skips tests for which NumPy or torch is missing.
"""

import sys
import types
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

pytest.importorskip("numpy", reason="NumPy is not installed")
pytest.importorskip("torch", reason="torch is not installed")


class GrammarRow(NamedTuple):
    row: int
    grammar: object


@dataclass
class GrammarStats:
    compilation_time: float | None = None
    is_cache_hit: bool = False
    tree_traversal_time: list = field(default_factory=list)
    dispatch_type: str | None = None


class BaseGrammarObject:
    def __init__(self):
        self.finished = False
        self.grammar_stats = None
        self.current_token = None


class InvalidGrammarObject(BaseGrammarObject):
    def __init__(self, error_message="Unknown grammar error"):
        super().__init__()
        self.error_message = error_message


class BaseGrammarBackend:
    def __init__(self):
        self.cache = {}

    def set_cache(self, key, value):
        self.cache[key] = value


def stand_in():
    """Put modules with these classes where the package imports those of SGLang."""
    choices = ["xgrammar", "none"]
    registry = {}
    own = [GrammarRow, GrammarStats, BaseGrammarObject, InvalidGrammarObject, BaseGrammarBackend]
    contents = {
        "sglang": {},
        "sglang.srt": {},
        "sglang.srt.constrained": {},
        "sglang.srt.constrained.base_grammar_backend": {
            **{part.__name__: part for part in own},
            "GRAMMAR_BACKEND_REGISTRY": registry,
            "register_grammar_backend": registry.__setitem__,
        },
        "sglang.srt.plugins": {},
        "sglang.srt.plugins.hook_registry": {
            "HookRegistry": types.SimpleNamespace(register=lambda *_: None),
            "HookType": types.SimpleNamespace(AROUND="around"),
        },
        "sglang.srt.runtime_context": {"get_serving": lambda: None},
        "sglang.srt.server_args": {
            "GRAMMAR_BACKEND_CHOICES": choices,
            "add_grammar_backend_choices": choices.extend,
        },
        "sglang.srt.utils": {},
        "sglang.srt.utils.common": {"is_pin_memory_available": lambda: False},
    }
    for name, members in contents.items():
        module = types.ModuleType(name)
        vars(module).update(members)
        sys.modules[name] = module


try:
    import sglang.srt.constrained.base_grammar_backend as base
except ImportError:
    stand_in()
    base = sys.modules["sglang.srt.constrained.base_grammar_backend"]
