"""The routes of every dialect, and the handling of their requests."""
