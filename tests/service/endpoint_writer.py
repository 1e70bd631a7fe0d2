"""Writes an endpoint file again and again, larger and smaller, until it is killed. Its argument is the path.

A line on standard output follows each write: the number of endpoints.
"""

import itertools
import sys
from pathlib import Path

from service.servicers.endpoint_file import EndpointFile
from tests.service.endpoint_states import state


def main() -> None:
    """Write until the end."""
    file = EndpointFile(Path(sys.argv[1]))
    for number in itertools.cycle(range(1, 60)):
        file.write(state(number))
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
