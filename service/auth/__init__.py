"""Who calls: credentials in, callers out. Values only; it knows no transport."""
