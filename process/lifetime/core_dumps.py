"""Keep the memory of crashed processes off the disk."""

from __future__ import annotations

import resource
from typing import Final

# The kernel writes no file as small as this, and starts no program of `core_pattern`, as it does for a limit of 0.
_NO_DUMP: Final = 1


def disable_core_dumps() -> None:
    """Let this process, and those that it starts, leave no core dump, whatever `ulimit -c` is."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    limit = _NO_DUMP if hard == resource.RLIM_INFINITY else min(hard, _NO_DUMP)
    resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))
