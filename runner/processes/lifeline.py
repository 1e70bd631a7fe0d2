"""Kill a child process when its parent ends for any reason.

The program `python -m runner.processes.lifeline PARENT COMMAND…` binds itself to the process PARENT and executes
COMMAND.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Sequence

_PR_SET_PDEATHSIG = 1  # from linux/prctl.h
_LIBC = ctypes.CDLL(None)  # loaded here, because no library may be loaded between fork and exec
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)


def die_with_parent() -> Callable[[], None]:
    """Return a `preexec_fn` that makes the kernel kill the child when this process dies.

    The caller must have one thread, because a fork runs the fork handlers of all libraries, and gRPC's fail while its
    threads run. The child unblocks the signals that this process waits for. It works on Linux only. The thread that
    starts the child must live as long as this process, because the kernel watches the thread.
    """
    parent = os.getpid()
    return lambda: _die_with_parent(parent)


def command_dying_with_parent(command: Sequence[str]) -> list[str]:
    """Return a command that runs `command` and is killed when this process dies, without a `preexec_fn`.

    As with `die_with_parent`, the thread that starts it must live as long as this process.
    """
    return [sys.executable, "-m", "runner.processes.lifeline", str(os.getpid()), *command]


def _die_with_parent(parent: int) -> None:
    """Arrange, in the child, that it is killed when its parent dies."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    if os.getppid() != parent:  # the parent died before prctl
        os._exit(1)


if __name__ == "__main__":
    _die_with_parent(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606  the command is from this project
