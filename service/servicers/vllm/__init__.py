"""vllm.grpc.engine.VllmEngine: its RPCs, and the requests that others of its RPCs can abort."""
