"""Packed (quantized) weights, which are dequantized when they are read."""
