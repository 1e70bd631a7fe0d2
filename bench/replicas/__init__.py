"""Benchmarks of the running product: start, memory, capacity, overload, long prompts, and several replicas."""
