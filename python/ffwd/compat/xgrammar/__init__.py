"""The calls that engines make of XGrammar 0.2, on this engine.

    import ffwd.compat.xgrammar as xgrammar

The masks are those of `ffwd`: exact, and special tokens are never text. Whitespace that XGrammar
leaves unlimited has at most 24 bytes at each position. `str(grammar)` is the text that a grammar
was made from, not a normal form.
"""

from . import exception, structural_tag, testing
from .compiler import CompiledGrammar, GrammarCompiler
from .config import (
    get_max_recursion_depth,
    get_serialization_version,
    max_recursion_depth,
    set_max_recursion_depth,
)
from .contrib import hf
from .exception import (
    DeserializeFormatError,
    DeserializeVersionError,
    InvalidJSONError,
    InvalidStructuralTagError,
)
from .grammar import Grammar
from .matcher import (
    BatchGrammarMatcher,
    GrammarMatcher,
    allocate_token_bitmask,
    apply_token_bitmask_inplace,
    get_bitmask_shape,
    reset_token_bitmask,
)
from .structural_tag import StructuralTag, StructuralTagItem
from .tokenizer_info import TokenizerInfo, VocabType

__all__ = [
    "BatchGrammarMatcher",
    "CompiledGrammar",
    "DeserializeFormatError",
    "DeserializeVersionError",
    "Grammar",
    "GrammarCompiler",
    "GrammarMatcher",
    "InvalidJSONError",
    "InvalidStructuralTagError",
    "StructuralTag",
    "StructuralTagItem",
    "TokenizerInfo",
    "VocabType",
    "allocate_token_bitmask",
    "apply_token_bitmask_inplace",
    "bitmask_dtype",
    "exception",
    "get_bitmask_shape",
    "get_max_recursion_depth",
    "get_serialization_version",
    "hf",
    "max_recursion_depth",
    "reset_token_bitmask",
    "set_max_recursion_depth",
    "structural_tag",
    "testing",
]


# Structural tags that XGrammar has ready for models.
_READY = {
    "get_builtin_structural_tag",
    "get_model_structural_tag",
    "normalize_tool_choice",
    "register_model_structural_tag",
}


def __getattr__(name: str):
    if name == "bitmask_dtype":
        import torch

        return torch.int32
    if name in _READY:
        from ._refused import Refused

        return Refused(name, "is not there; see `ffwd.Constraint.tools`")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
