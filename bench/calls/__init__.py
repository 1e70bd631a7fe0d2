"""What one call costs outside the engine: credentials, limits, gateway, Envoy, client."""
