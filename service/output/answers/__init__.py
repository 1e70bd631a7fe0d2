"""The events of the answers to a request, read from an engine's outputs.

One reader per request has one reader per choice.
"""
