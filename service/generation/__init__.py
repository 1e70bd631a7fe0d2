"""What is asked of an engine and what comes of it, as values.

Everything here is immutable and picklable, and imports neither protobuf, gRPC nor torch: these values cross between the
event loop and an engine, whether that is a thread or a process of its own.
"""
