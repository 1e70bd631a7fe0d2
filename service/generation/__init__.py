"""The values of requests to an engine and of its answers.

Everything here is immutable and picklable, and imports neither protobuf, gRPC nor torch: these values are passed
between the event loop and an engine in a thread or a process.
"""
