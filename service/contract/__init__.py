"""Translate between the contract's messages and values: requests one way, events the other. Pure."""
