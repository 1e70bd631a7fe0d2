"""The states of a `ProcessLink`.

| state | meaning | left by |
|---|---|---|
| NEW | never launched | launch → LOADING; plan → STOPPED |
| LOADING | the worker loads, first or after a stop | loaded → LOADED; fails → NEW, STOPPED; stop → STOPPING |
| LOADED | the worker has loaded and reports to nobody | start → RUNNING; stop → STOPPING |
| RUNNING | the worker serves | death → WAITING, DEAD; stop → STOPPING |
| WAITING | the worker died; the restart delay passes | delay over → RELOADING; stop → STOPPING |
| RELOADING | a new worker loads | loaded → RUNNING; fails → WAITING, DEAD; stop → STOPPING |
| STOPPING | the worker ends | ended → STOPPED |
| STOPPED | no worker; the memory is free | relaunch → LOADING |
| DEAD | no worker, and none will be started | nothing |
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class LinkState(enum.Enum):
    """The state of a `ProcessLink`. The table above has the meaning of each."""

    NEW = "new"
    LOADING = "loading"
    LOADED = "loaded"
    RUNNING = "running"
    WAITING = "waiting"
    RELOADING = "reloading"
    STOPPING = "stopping"
    STOPPED = "stopped"
    DEAD = "dead"


NEXT_STATES: Final[Mapping[LinkState, frozenset[LinkState]]] = {
    LinkState.NEW: frozenset({LinkState.LOADING, LinkState.STOPPED}),
    LinkState.LOADING: frozenset({LinkState.LOADED, LinkState.NEW, LinkState.STOPPED, LinkState.STOPPING}),
    LinkState.LOADED: frozenset({LinkState.RUNNING, LinkState.STOPPING}),
    LinkState.RUNNING: frozenset({LinkState.WAITING, LinkState.DEAD, LinkState.STOPPING}),
    LinkState.WAITING: frozenset({LinkState.RELOADING, LinkState.STOPPING}),
    LinkState.RELOADING: frozenset({LinkState.RUNNING, LinkState.WAITING, LinkState.DEAD, LinkState.STOPPING}),
    LinkState.STOPPING: frozenset({LinkState.STOPPED}),
    LinkState.STOPPED: frozenset({LinkState.LOADING}),
    LinkState.DEAD: frozenset(),
}
