"""The effects that a request has on its row of logits before a token is drawn.

The table lists all of them.
"""
