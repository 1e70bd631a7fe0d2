"""Settings of a process: their sources, names, errors, reload, and their display."""
