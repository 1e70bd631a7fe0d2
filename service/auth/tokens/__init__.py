"""JSON Web Tokens: the keys of their signers, and the callers that tokens name."""
