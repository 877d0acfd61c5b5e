"""The exceptions of XGrammar. Those about an input are `ffwd.Error` as well."""

from __future__ import annotations

from typing import NoReturn

import ffwd


class DeserializeFormatError(RuntimeError):
    """A serialised text has another form."""


class DeserializeVersionError(RuntimeError):
    """A serialised text is of another version."""


class InvalidStructuralTagError(ffwd.Error, RuntimeError):
    """A structural tag is not valid."""


class InvalidJSONError(ffwd.Error, RuntimeError):
    """A text is not JSON."""


class GrammarError(ffwd.Error, RuntimeError):
    """A grammar, a schema or a regular expression is not valid or not supported."""


def reraise(error: ffwd.Error, kind: type[ffwd.Error] = GrammarError) -> NoReturn:
    """Raise an error as the class that programs for XGrammar catch, with the same attributes."""
    raised = (InvalidJSONError if error.kind == "invalid_json" else kind)(*error.args)
    for name in ("kind", "message", "pointer", "line", "column", "hint"):
        setattr(raised, name, getattr(error, name))
    raise raised from error
