"""Yield to the event loop regularly while a call processes many queued outputs, so that other calls run."""

from __future__ import annotations

import asyncio
from typing import Final

from service.generation.outputs.output import GenerationOutput

_WORK_OF_TURN: Final = 1024  # logprobs, including candidates: about 2 ms to process
_WORK_OF_OUTPUT: Final = 10  # the cost of an output without logprobs, in the same unit


class LoopTurns:
    """Yields to the event loop after about 2 ms of one call's work.

    Reading queued outputs never waits, so otherwise one call would block the loop until it has processed all of them.
    """

    def __init__(self) -> None:
        self._num_left = _WORK_OF_TURN

    async def yield_if_due(self, output: GenerationOutput) -> None:
        """Call this after each output. It yields to the event loop once the outputs' work adds up to a turn."""
        num_candidates = len(output.logprobs[0].top) if output.logprobs else 0
        self._num_left -= _WORK_OF_OUTPUT + len(output.logprobs) * (1 + num_candidates)
        if self._num_left <= 0:
            self._num_left = _WORK_OF_TURN
            await asyncio.sleep(0)
