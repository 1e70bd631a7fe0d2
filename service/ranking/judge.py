"""Scores of a generating model: the probability that it answers yes rather than no for a pair."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from service.engine.interface.port import Generator
from service.generation.caller import ANONYMOUS, Caller
from service.generation.errors import EngineOverloaded
from service.generation.outputs.output import Timings
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from service.generation.requests.ranking import Activation, RankingOutput, TextsToRank
from service.generation.requests.request import GenerationRequest
from service.prompting.preparation import cache_group
from service.prompts.pairs.pair_reader import PairTokens
from service.prompts.pairs.templated_pairs import TemplatedPairs
from service.prompts.preparing.chunk import TextThreads
from service.ranking.ranker import PreparedRanking, read_pairs

_AT_A_TIME: Final = 32  # prompts in the engine's queue, which other requests share
_MAX_TRIALS: Final = 20  # to be admitted again, after some of a request's pairs were scored


class JudgeRanker:
    """A Ranker that uses a generator. A score is the sigmoid of the difference of the logits of yes and no."""

    activation: Activation = "sigmoid"

    def __init__(self, engine: Generator, reader: TemplatedPairs, yes_id: int, no_id: int) -> None:
        self._engine = engine
        self._reader = reader
        self._options = LogprobsOptions(token_ids=(yes_id, no_id))
        self._threads = TextThreads("pairs")

    def set_length(self, max_model_len: int) -> None:
        """Limit prompts to another maximum length of the model, which includes the answer."""
        self._reader.max_tokens = max_model_len - 1

    def close(self) -> None:
        """Stop the worker threads; no request may be prepared afterwards."""
        self._threads.close()

    async def prepare(
        self, texts: TextsToRank, request_id: str, deadline: float | None, caller: Caller = ANONYMOUS
    ) -> PreparedRanking:
        """Return the request ready to run. Raise the errors of a Ranker, and EngineOverloaded."""
        self._engine.reject_if_overloaded(caller.id, caller.weight, deadline)
        pairs, num_tokens = await read_pairs(texts, self._reader, self._threads, caller)

        def request(index: int, pair: PairTokens) -> GenerationRequest:
            return GenerationRequest(
                request_id=request_id,
                prompt_token_ids=pair.token_ids.tolist(),
                sampling=SamplingParams(seed=0).as_greedy(),
                stopping=StopParams(max_tokens=1),
                logprobs=self._options,
                deadline=deadline,
                caller_id=caller.id,
                weight=caller.weight,
                priority=texts.priority,
                cache_group=cache_group(caller),
                prompt_field=f"documents[{index}]",
            )

        async def run() -> RankingOutput:
            arrived = time.monotonic()
            scores: list[float] = []
            cost = _Cost()
            scheduled: float | None = None
            for start in range(0, len(pairs), _AT_A_TIME):
                requests = [
                    request(start + offset, pair) for offset, pair in enumerate(pairs[start : start + _AT_A_TIME])
                ]
                found, began = await self._judge_with_retries(requests, cost, is_first=not start)
                scores += found
                scheduled = scheduled or began
            ended = time.monotonic()
            return RankingOutput(scores, arrived, scheduled or arrived, ended, cost.compute_s, cost.block_s)

        return PreparedRanking(num_tokens, run)

    async def _judge_with_retries(
        self, requests: Sequence[GenerationRequest], cost: _Cost, *, is_first: bool
    ) -> tuple[list[float], float | None]:
        """Score the prompts; unless they are the request's first, retry on overload a limited number of times."""
        for _ in range(0 if is_first else _MAX_TRIALS):
            try:
                return await self._judge(requests, cost)
            except EngineOverloaded as error:
                await asyncio.sleep(error.retry_after_s)
        return await self._judge(requests, cost)

    async def _judge(self, requests: Sequence[GenerationRequest], cost: _Cost) -> tuple[list[float], float | None]:
        """Return the difference of the logits of yes and no for each prompt, and the start of the first one's step."""
        scores = [0.0] * len(requests)
        timings: Timings | None = None
        async with self._engine.generate(*requests) as outputs:
            async for output in outputs:
                timings = timings or output.timings
                cost.add(output.timings)
                if output.logprobs:
                    (_, yes), (_, no) = output.logprobs[0].top
                    scores[output.request_index] = yes - no
        assert timings is not None  # noqa: S101  a stream that ends without an error has outputs
        return scores, timings.scheduled


@dataclass(slots=True)
class _Cost:
    """The cost of all prompts so far. Each has one output, which is its last."""

    compute_s: float = 0.0
    block_s: float = 0.0

    def add(self, timings: Timings) -> None:
        """Add the cost of one prompt."""
        self.compute_s += timings.compute_s
        self.block_s += timings.block_s
