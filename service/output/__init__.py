"""From an engine's outputs to events: reasoning, tool calls and content."""
