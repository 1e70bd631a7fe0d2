"""How much each caller may ask for: limits, the buckets that hold them, and where these are kept."""
