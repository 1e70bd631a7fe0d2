"""Instruments, engine metrics, health and log fields of the service."""
