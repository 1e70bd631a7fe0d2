"""The engine without a server: steps, sampling, drafts, rounded weights, memory."""
