"""Host and device memory: its capacity, and copies between the two."""
