"""The Gemma models: gemma.py has Gemma 1 to 3, gemma4.py has Gemma 3n and 4."""
