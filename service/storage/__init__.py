"""Documents that replicas share in files and Redis keys, written whole and checked for changes."""
