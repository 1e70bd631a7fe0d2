"""The service: a gRPC server that generates answers with the engines of its models.

A call passes servicers and interceptors, the contract's conversion to plain values, prompts, and an engine.
"""
