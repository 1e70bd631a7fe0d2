"""The life of the service process, and its composition root.

One gRPC server with its listener, services and stores.
"""
