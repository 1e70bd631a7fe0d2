"""The generation core behind one port.

`client` on the event loop, `link` to the other side, `core` that decides each step, `runner` and `models` that
compute it.
"""
