"""From texts to an encoder's input, with the prefixes of their purposes."""
