"""The families of models with experts, one a file."""
