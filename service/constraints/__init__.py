"""Output constraints as the text of a grammar, which the engine compiles."""
