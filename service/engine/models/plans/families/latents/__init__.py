"""Families with multi-head latent attention (MLA): data only."""
