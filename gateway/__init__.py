"""The REST and SSE side of sluice: JSON dialects in, gRPC out. It knows no model code and no engine."""
