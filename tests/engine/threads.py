"""The threads of the tests' process."""

import threading


def has_thread(name: str) -> bool:
    """Whether a thread of that name runs."""
    return any(thread.name == name for thread in threading.enumerate())
