"""Writes an endpoint file until it is killed. Its arguments are the path and how.

`loop`: one state after another, larger and smaller; a line on standard output follows each write, the number of
endpoints. `fsync 1`, `replace 1`, `fsync 2`: a state of 3 and then one of 50, and stands still where that function is
called for the first or second time in the second write; a line says so.
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


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def stand_still_at(owner: Any, name: str, number: int) -> None:
    """Have the call of that number go no further."""
    function, numbers = getattr(owner, name), itertools.count(1)

    def counting(*arguments: Any) -> Any:
        if next(numbers) == number:
            tell("stands still")
            signal.pause()
        return function(*arguments)

    setattr(owner, name, counting)


def main(path: str, how: str, number: str = "") -> None:
    """Write until the end."""
    file = SharedDocument(SharedFile(Path(path)), EndpointJson(is_strict=True))
    if how == "loop":
        for size in itertools.cycle(range(1, 60)):
            file.write(state(size))
            tell(str(size))
    file.write(state(3))
    stand_still_at({"fsync": os, "replace": Path}[how], how, int(number))
    file.write(state(50))


if __name__ == "__main__":
    main(*sys.argv[1:])
