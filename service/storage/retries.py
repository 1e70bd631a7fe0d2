"""The pauses between the tries of a change that other processes overtake."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

MAX_TRIES: Final = 40
_FIRST_S: Final = 0.002
_LONGEST_S: Final = 0.1


def pauses() -> Iterator[float]:
    """Yield the seconds to wait before each further try: random, so that processes with equal speed don't stay in step.

    Their sum is at most 3.5 s, so that a change fails only if others are faster for that long.
    """
    for number in range(MAX_TRIES - 1):
        yield random.uniform(0, min(_LONGEST_S, _FIRST_S * 2**number))  # noqa: S311  not a secret
