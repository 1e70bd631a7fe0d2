"""The JSON dialects: pure translation between a caller's JSON and the contract's messages.

A dialect imports `seam`, those of OpenAI's family `openai_family` too, and none imports another dialect.
"""
