"""The kernels of `apply_token_bitmask_inplace` by name. All names are the same function."""
