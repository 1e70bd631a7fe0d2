"""The routes of every dialect, and the way of a request through them."""
