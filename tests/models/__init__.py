"""Small random models of every architecture in transformers, and the table of supported ones in docs/models.md."""
