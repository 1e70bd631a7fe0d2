"""Answer a call: from its request to the events of its answer, observed by telemetry."""
