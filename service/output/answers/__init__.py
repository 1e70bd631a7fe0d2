"""Readers that turn an engine's outputs into the events of the answers to a request.

Each request has a reader, which has one reader per choice.
"""
