"""The deciding half: which sequences compute which tokens in a step, and what becomes of the results. No torch."""
