"""The form that an output must have: formats, constraints, and JSON with its schemas."""
