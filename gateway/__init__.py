"""The gateway: translates REST and SSE in several JSON dialects to gRPC. Contains no model or engine code."""
