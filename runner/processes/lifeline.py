"""End a child process when its parent ends, however that ends.

As a program (`python -m runner.processes.lifeline PARENT COMMAND…`) it ties itself to the process PARENT and becomes
COMMAND.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Sequence

_PR_SET_PDEATHSIG = 1  # of linux/prctl.h
_LIBC = ctypes.CDLL(None)  # loaded here, since nothing may be loaded between fork and exec
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)


def dying_with_parent() -> Callable[[], None]:
    """Return a `preexec_fn` that makes the kernel kill the child when this process dies.

    Only for a process with one thread: a fork runs the handlers of all libraries, and gRPC's fail while its threads
    work. Signals that this process waits for don't stay blocked in the child. On Linux. The thread that starts the
    child must live as long as this process: its end is what the kernel looks at.
    """
    parent = os.getpid()
    return lambda: _tie(parent)


def dying_command(command: Sequence[str]) -> list[str]:
    """Return a command that runs `command` and is killed when this process dies; it needs no fork of this process.

    As with `dying_with_parent`, the thread that starts it must live as long as this process.
    """
    return [sys.executable, "-m", "runner.processes.lifeline", str(os.getpid()), *command]


def _tie(parent: int) -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    if os.getppid() != parent:  # it died before the first line
        os._exit(1)


if __name__ == "__main__":
    _tie(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606  the command is this project's own
