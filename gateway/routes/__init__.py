"""The operations of every dialect (`dialects`), and the handling of their requests."""
