"""From a request to the engine's request: templates, sampling defaults, constraints and limits."""
