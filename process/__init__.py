"""What service, gateway and runner share: sources of settings, logs, telemetry, TLS files. Imports none of them."""
