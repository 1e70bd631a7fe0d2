"""inference.GRPCInferenceService: its RPCs, and the requests of one stream."""
