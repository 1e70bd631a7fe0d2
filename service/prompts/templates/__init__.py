"""A model's chat template: its rendering, its input, and the form of its tool calls."""
