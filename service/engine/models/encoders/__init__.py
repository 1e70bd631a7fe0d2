"""The models of encoders and cross-encoders."""
