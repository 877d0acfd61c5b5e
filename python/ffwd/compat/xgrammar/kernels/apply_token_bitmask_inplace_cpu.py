"""`apply_token_bitmask_inplace` under the name of a kernel."""

from ..matcher import apply_token_bitmask_inplace as apply_token_bitmask_inplace_cpu

__all__ = ["apply_token_bitmask_inplace_cpu"]
