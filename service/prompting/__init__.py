"""From a client's request to the engine's: templates, sampling defaults, constraints and limits."""
