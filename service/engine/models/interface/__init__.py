"""What a backend is, and the description of a model by which one is selected."""
