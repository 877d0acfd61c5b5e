"""The calls that engines make of llguidance 1.7, on this engine.

    import ffwd.compat.llguidance as llguidance

A matcher has the error states of llguidance: it never raises for a grammar or a token, and stays
in its first error. Grammars are texts: of Lark, or JSON that `grammar_from` writes. Whitespace that
llguidance leaves unlimited has at most 24 bytes at each position.
"""

from ._grammar import (
    GrammarFormat,
    JsonCompiler,
    LarkCompiler,
    RegexCompiler,
    StructTag,
    grammar_from,
    regex_to_lark,
)
from ._matcher import LLExecutor, LLInterpreter, LLMatcher, LLParserLimits
from ._tokenizer import LLTokenizer, TokenizerWrapper

__version__ = "1.7.6"

__all__ = [
    "GrammarFormat",
    "JsonCompiler",
    "LLExecutor",
    "LLInterpreter",
    "LLMatcher",
    "LLParserLimits",
    "LLTokenizer",
    "LarkCompiler",
    "RegexCompiler",
    "StructTag",
    "TokenizerWrapper",
    "__version__",
    "get_version",
    "grammar_from",
    "regex_to_lark",
]


def get_version() -> str:
    """Return the version of `ffwd`, and that of the interface."""
    import ffwd

    return f"ffwd@{ffwd.__version__}, interface of llguidance@{__version__}"
