"""Load a model from its settings: its engine, prompt preparation, image reader and description."""
