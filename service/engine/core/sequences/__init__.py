"""One choice of a request while it is generated: its tokens, text and constraint."""
