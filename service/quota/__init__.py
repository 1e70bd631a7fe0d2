"""Quotas: limits, the buckets that hold them, and their stores."""
