"""The constraint engine as a structured-output backend of vLLM.

vLLM finds `register` by the entry point `vllm.general_plugins`, and a server then takes
`--structured-outputs-config.backend ffwd`. A program that makes an `LLM` calls it first:

    >>> import ffwd.vllm
    >>> ffwd.vllm.register()  # doctest: +SKIP
    True

`JumpForward` is the drafter of jump-forward without another one:
`speculative_config={"model": "ffwd.vllm.JumpForward", "num_speculative_tokens": 16}`.

Nothing of vLLM is imported with this module.
"""

from __future__ import annotations

import logging
import threading

from .drafter import JumpForward

__all__ = ["JumpForward", "register"]

_lock = threading.Lock()
_registered: bool | None = None


def register() -> bool:
    """Make vLLM accept the backend `ffwd`. Further calls do nothing.

    Everything that is replaced in vLLM is compared first with what this version of the package
    expects. If something differs, nothing is replaced and the log says what.

    Returns:
        True if vLLM accepts the backend.

    Raises:
        ImportError: vLLM is not installed.
    """
    global _registered
    with _lock:
        if _registered is None:
            from . import contract, patches

            difference = contract.difference()
            if difference is None:
                patches.apply()
            else:
                logging.getLogger("vllm.ffwd").warning(
                    "The backend ffwd is not available in this vLLM: %s.", difference
                )
            _registered = difference is None
    return _registered
