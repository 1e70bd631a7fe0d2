"""Shared parts of service, gateway and runner: sources of settings, logs, telemetry, TLS files.

Imports none of them.
"""
