"""Asks any server of a dialect what the dialect's reference promises, and says what holds: `python -m conformance`."""
