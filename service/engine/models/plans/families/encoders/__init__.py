"""Families of encoders: a file each, data only."""
