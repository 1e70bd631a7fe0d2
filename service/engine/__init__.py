"""The inference engine behind one port.

`client` runs on the event loop, `link` connects it to `core`, which decides each step, and `runner` and `models`
compute the step.
"""
