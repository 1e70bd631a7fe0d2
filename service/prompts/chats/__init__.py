"""From a conversation to a model's tokens.

The chat's prompt, with its reasoning effort and the description of its output format.
"""
