"""`sluice bench`: what a running server does under load."""
