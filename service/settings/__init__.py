"""The service's settings, each with its unit, range and default."""
