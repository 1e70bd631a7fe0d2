"""Instruments, the engine's metrics, health and logs of the service."""
