"""Answer a call: turn its request into the events of its answer, and record telemetry."""
