"""Build and test of a release in `dist/`."""
