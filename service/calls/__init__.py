"""The record of the current call, and the errors of calls that are rejected before any lookup."""
