"""Every setting of the service, with its unit, range and default."""
