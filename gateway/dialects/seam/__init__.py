"""What every dialect shares with the gateway: what arrives, what is asked of the service, and how answers are told."""
