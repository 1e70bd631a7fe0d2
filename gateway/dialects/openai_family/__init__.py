"""The shared code of OpenAI's family of dialects: a package per API, and common parameters and answers.

A dialect adds its own fields by inheritance.
"""
