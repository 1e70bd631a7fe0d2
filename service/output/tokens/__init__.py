"""The tokens of an answer: their text, their logprobs, and their watermark."""
