"""The step of a Llama-like decoder on CPUs."""

from sluice_native._native import Model, instruction_sets, sample, uniforms

__all__ = ["Model", "instruction_sets", "sample", "uniforms"]
