"""Write an endpoint file until killed. The arguments are the path and a mode.

`loop`: write one state after another, larger and smaller ones; after each write, print the number of endpoints. `fsync
1`, `replace 1`, `fsync 2`: write a state of 3 endpoints and then one of 50, and pause at the first or second call of
that function during the second write; print a line when paused.
"""

import itertools
import os
import signal
import sys
from pathlib import Path
from typing import Any

from service.contract.models.endpoint_json import EndpointJson
from service.storage.document import SharedDocument
from service.storage.shared_file import SharedFile
from tests.service.endpoint_states import state


def report(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def stand_still_at(owner: Any, name: str, number: int) -> None:
    """Block the call with that number."""
    function, numbers = getattr(owner, name), itertools.count(1)

    def counting(*arguments: Any) -> Any:
        if next(numbers) == number:
            report("paused")
            signal.pause()
        return function(*arguments)

    setattr(owner, name, counting)


def main(path: str, how: str, number: str = "") -> None:
    """Write until killed."""
    file = SharedDocument(SharedFile(Path(path)), EndpointJson(is_strict=True))
    if how == "loop":
        for size in itertools.cycle(range(1, 60)):
            file.write(state(size))
            report(str(size))
    file.write(state(3))
    stand_still_at({"fsync": os, "replace": Path}[how], how, int(number))
    file.write(state(50))


if __name__ == "__main__":
    main(*sys.argv[1:])
