"""What a dialect adds to the application: a surface, with an operation per method and path."""
