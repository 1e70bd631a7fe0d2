"""Pairs of a query and a document as the tokens of one prompt.

Joined as encoders expect them, or rendered by a template.
"""
