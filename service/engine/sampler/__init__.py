"""From logits to tokens, in one call for all sequences of a step, each with its own parameters."""
