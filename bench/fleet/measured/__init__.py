"""Measured inputs and references of simulations: step times of this machine, and a real fleet with given step times."""
