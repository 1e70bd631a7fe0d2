"""Builds the documentation: its pages, the references made from code and contract, and the README's pictures."""
