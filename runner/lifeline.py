"""End a child process when its parent ends, however that ends."""

import ctypes
import os
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1  # of linux/prctl.h
_LIBC = ctypes.CDLL(None)  # loaded here, since nothing may be loaded between fork and exec
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)


def dying_with_parent() -> Callable[[], None]:
    """What a child does before its program begins, as `preexec_fn`: the kernel shall kill it when this process dies.

    Signals that this process waits for don't stay blocked in the child. On Linux. The thread that starts the child must
    live as long as this process: its end is what the kernel looks at.
    """
    parent = os.getpid()

    def prepare() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        if os.getppid() != parent:  # it died before the first line
            os._exit(1)

    return prepare
