"""The surface of each dialect: its paths, each once, with an example."""
