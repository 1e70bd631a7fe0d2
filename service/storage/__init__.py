"""Documents that replicas share in files and Redis keys, replaced atomically and checked for changes."""
