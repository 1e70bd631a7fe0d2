"""The command `sluice`."""
