"""Attacks on a server of this machine: what is sent, and whether the server stays safe."""
