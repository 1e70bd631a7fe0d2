"""Authentication: credentials to callers. It works on values only, and knows no transport."""
