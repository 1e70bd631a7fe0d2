"""Simulation of 10 to 1,000 replicas from measured step times: `python -m bench.fleet`."""
