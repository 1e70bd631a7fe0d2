"""Read one tool call, character by character, as JSON.

One reader per form in which models write calls, and the conversion of their values.
"""
