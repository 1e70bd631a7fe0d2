"""The threads of the test's process."""

import threading


def has_thread(name: str) -> bool:
    """Return whether a thread of that name runs."""
    return any(thread.name == name for thread in threading.enumerate())
