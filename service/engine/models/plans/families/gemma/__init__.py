"""The Gemma models: gemma.py has Gemma 1 to 3, gemma4.py has those that share keys and have inputs of layers."""
