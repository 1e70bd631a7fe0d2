"""What the dialects of OpenAI's family share: a package per API, and the parameters and answers they have in common.

A dialect adds its own fields by inheritance.
"""
