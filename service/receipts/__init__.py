"""Receipts of answers: signing keys, the digest of tokens, verification. No transport, no model."""
