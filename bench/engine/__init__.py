"""Benchmarks of the engine without a server: steps, sampling, speculation, quantization, memory."""
