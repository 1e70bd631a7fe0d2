"""The JSON dialects: pure translation between a caller's JSON and the contract's messages.

Each dialect imports `seam`; those of OpenAI's family also import `openai_family`. No dialect imports another.
"""
