"""Parts of answers that several APIs have in common: usage, tokens with logprobs, and the types for OpenAPI."""
