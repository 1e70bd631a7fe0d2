"""The sub-commands of `sluice`, one file each."""
