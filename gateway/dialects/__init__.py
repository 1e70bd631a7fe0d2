"""The JSON dialects: pure translation between a caller's JSON and the contract's messages.

Nothing here does IO, waits, or knows HTTP servers and gRPC. A dialect (`openai`) stands on the shared modules and
imports no other dialect.
"""
