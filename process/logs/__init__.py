"""Log lines, and text that is safe to print on a terminal."""
