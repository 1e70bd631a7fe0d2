"""The gateway's tracer and instruments, and the names of its attributes."""
