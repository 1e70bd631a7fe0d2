"""Encoders and cross-encoders."""
