"""The model families whose tool calls and reasoning are parsed.

The syntax of their calls, their markers, and the detection of a model's family.
"""
