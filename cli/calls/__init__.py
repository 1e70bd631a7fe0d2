"""Calls of a running server, over HTTP and gRPC, and the options and answers that commands have in common."""
