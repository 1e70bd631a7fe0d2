"""Envoy: its configuration for a run or a fleet, its endpoint files and TLS, and its process, drained at SIGTERM."""
