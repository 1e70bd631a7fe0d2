"""The messages of `sluice.v1`, a module for each file of the contract. Made by `make generate`."""
