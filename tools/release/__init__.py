"""Builds a release into `dist/`, and tries it."""
