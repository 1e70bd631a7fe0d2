"""Families whose attention is over latents: data only."""
