"""Turns of the event loop: an answer with many outputs yields to other calls between them."""

from __future__ import annotations

import asyncio
from typing import Final

from service.generation.outputs.output import GenerationOutput

_WORK_OF_TURN: Final = 1024  # logprobs, candidates included; they are read and rendered in about two milliseconds
_WORK_OF_OUTPUT: Final = 10  # the time of an output without logprobs, in the same unit


class LoopTurns:
    """Yields to the event loop after a turn's work.

    Queued outputs are read without waiting, so without these turns one call would read all of them in one turn of the
    loop.
    """

    def __init__(self) -> None:
        self._num_left = _WORK_OF_TURN

    async def count(self, output: GenerationOutput) -> None:
        """Count the work of an output that was read, and let other calls run if the turn is over."""
        num_candidates = len(output.logprobs[0].top) if output.logprobs else 0
        self._num_left -= _WORK_OF_OUTPUT + len(output.logprobs) * (1 + num_candidates)
        if self._num_left <= 0:
            self._num_left = _WORK_OF_TURN
            await asyncio.sleep(0)
