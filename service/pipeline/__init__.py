"""What stands between chat messages and tokens: templates, parsers, output constraints."""
