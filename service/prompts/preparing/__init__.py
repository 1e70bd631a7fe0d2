"""The order and the time of preparations: threads, chunks of texts, and priorities."""
