"""The life of a process: its scheduling policy, the signals that stop it, and the end of one that can't continue."""
