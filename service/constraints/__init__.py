"""What an answer's text must look like, as the text of a grammar; the engine compiles it."""
