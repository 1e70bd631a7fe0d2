"""`sluice bench`: a load test of a running server."""
