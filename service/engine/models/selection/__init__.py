"""The table of backends, from which the first that supports a model is selected."""
