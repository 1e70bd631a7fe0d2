"""The families of models that the native step computes, one a file."""
