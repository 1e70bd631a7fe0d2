"""vLLM's engine service: requests to messages of `sluice.v1`, answers to messages of token ids."""
