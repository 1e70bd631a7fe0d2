"""What all processes of the product have in common: settings, logs, telemetry, TLS files. It imports none of them."""
