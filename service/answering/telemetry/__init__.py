"""Telemetry of calls to models: spans, durations, token usage, and the recorded content of requests and answers."""
