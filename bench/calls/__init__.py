"""Benchmarks of a call's cost outside the engine: credentials, limits, gateway, Envoy, client."""
