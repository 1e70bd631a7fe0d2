"""Split a choice's text into reasoning, tool calls and content while it is generated.

One parser per way in which models mark these parts.
"""
