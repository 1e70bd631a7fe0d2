"""The families of models that have a layer plan, one a file."""
