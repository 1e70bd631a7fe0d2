"""From a call's request to the events of its answer, and what telemetry learns of them."""
