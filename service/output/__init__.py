"""From an engine's outputs to events: what is reasoning, what is a tool call, what is content."""
