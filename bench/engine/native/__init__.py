"""Benchmarks of the C++ step alone: its time by model, weight format and batch, and what formats lose."""
