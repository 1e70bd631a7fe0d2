"""The blocks of the KV cache: which are free, shared or cached."""
