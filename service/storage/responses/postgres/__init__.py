"""The store of responses in a PostgreSQL database, which replicas share."""
