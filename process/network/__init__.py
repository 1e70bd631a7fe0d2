"""TLS files, loopback addresses, and the warning about credentials in plain text."""
