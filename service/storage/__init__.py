"""Files and Redis keys that replicas share, written whole and watched for changes."""
