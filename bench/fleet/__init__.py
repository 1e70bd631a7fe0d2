"""A simulation of 10 to 1,000 replicas, from step times that were measured: `python -m bench.fleet`."""
