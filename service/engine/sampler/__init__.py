"""From logits to tokens: one call for all sequences of a step, each with its own parameters."""
