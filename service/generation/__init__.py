"""The values that an engine is asked with and answers with.

Everything here is immutable and picklable, and imports neither protobuf, gRPC nor torch: these values cross between the
event loop and an engine, whether that is a thread or a process of its own.
"""
