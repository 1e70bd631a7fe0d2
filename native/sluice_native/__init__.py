"""C++ backend for Llama-like decoders on CPUs."""

from sluice_native._native import DrawParams, Model, instruction_sets, packed_product, sample, uniforms

__all__ = ["DrawParams", "Model", "instruction_sets", "packed_product", "sample", "uniforms"]
