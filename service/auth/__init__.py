"""Authentication: map credentials to callers. Works on values only, independent of the transport."""
