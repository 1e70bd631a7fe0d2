"""Measurements of the product and its parts; `bench/README.md` has their results, with machine and command."""
