"""Traces and metrics of a process: providers, attribute names, resource usage."""
