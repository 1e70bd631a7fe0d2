"""Output constraints as grammar texts, which the engine compiles."""
