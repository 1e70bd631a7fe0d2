"""Calls to a running server, over HTTP and gRPC, and the options and output that commands share."""
