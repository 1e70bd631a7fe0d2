"""Certificates for development, and the TLS settings of a run."""
