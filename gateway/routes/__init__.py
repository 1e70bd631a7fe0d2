"""The paths of every dialect (`dialects`), each an operation of a surface, and the handling of their requests."""
