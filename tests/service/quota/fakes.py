"""A clock that is moved by hand, and what callers of a quota are told and counted by."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from service.generation.caller import Caller, Limits
from service.generation.outputs.events import Usage
from service.generation.prompts.conversation import RawText
from service.generation.requests.answer_request import AnswerRequest
from service.generation.requests.parameters import StopParams
from service.generation.requests.request import GenerationRequest
from service.quota.charge import Charge
from service.quota.limit import Measure
from service.quota.limit_status import LimitStatus, rate_limit_headers
from service.quota.memory_store import MemoryStore
from service.quota.quota import TOKENS, Quota
from service.quota.store import Store

MODEL = "m"


class HandClock:
    """Seconds, moved by tests."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Counts:
    """A QuotaObserver that remembers."""

    used: list[tuple[str, str, int, int]] = field(default_factory=list)
    refused: list[tuple[str, str, str]] = field(default_factory=list)

    def on_use(self, caller: str, model: str, num_input: int, num_output: int) -> None:
        self.used.append((caller, model, num_input, num_output))

    def on_refusal(self, caller: str, model: str, measure: Measure) -> None:
        self.refused.append((caller, model, str(measure)))


class Desk:
    """A quota over a store, by default one in memory under a clock moved by hand, and what it tells."""

    def __init__(
        self, store: Store | None = None, by_model: dict[str, Limits] | None = None, expected: int = 10
    ) -> None:
        self.clock = HandClock()
        self.counts = Counts()
        self.store = store or MemoryStore(self.clock)
        self.quota = Quota(self.store, self.counts, by_model or {}, expected)
        self.statuses: Sequence[LimitStatus] = ()

    @property
    def headers(self) -> dict[str, str]:
        """What a caller last saw."""
        return dict(rate_limit_headers(self.statuses))

    def _on_status(self, statuses: Sequence[LimitStatus]) -> None:
        self.statuses = statuses

    @asynccontextmanager
    async def request(
        self, caller: Caller, num_input: int = 1, max_tokens: int | None = 1, *, n: int = 1
    ) -> AsyncIterator[Charge]:
        """One request that is admitted for the block, and took its tokens."""
        async with self.quota.admit(caller, MODEL, self._on_status) as charge:
            asked = charge.bound(ask(max_tokens, n))
            await charge.take_for(asked_as(max_tokens, asked), prompts(num_input, asked.stopping.max_tokens, n))
            yield charge

    async def spend(self, caller: Caller, num_input: int, num_output: int, max_tokens: int | None = None) -> None:
        """One request from beginning to end."""
        async with self.request(caller, num_input, max_tokens) as charge:
            charge.count(lambda: Usage(num_input, num_output))

    async def read(self, caller: Caller, num_tokens: int) -> None:
        """One request that only reads."""
        async with self.quota.admit(caller, MODEL, self._on_status, (Measure.INPUT_TOKENS,)) as charge:
            await charge.take_input(num_tokens, "inputs")
            charge.count(lambda: Usage(num_tokens))


def caller_with(**limits: int) -> Caller:
    """A caller with limits of its own."""
    return Caller(id="k1", limits=Limits(**limits))


def ask(max_tokens: int | None = None, n: int = 1) -> AnswerRequest:
    """What a caller asks."""
    return AnswerRequest(
        MODEL, [RawText("x", "prompts[0]")], "prompts", n=n, stopping=StopParams(max_tokens=max_tokens)
    )


def asked_as(max_tokens: int | None, bound: AnswerRequest) -> AnswerRequest:
    """What was asked before it was bound: a bound isn't what the caller asked for."""
    return bound if max_tokens is not None else ask(None, bound.n)


def prompts(num_input: int, max_tokens: int | None, n: int = 1) -> list[GenerationRequest]:
    """One prompt, prepared, in a context of 1,000 tokens of answer."""
    stopping = StopParams(max_tokens=1000 if max_tokens is None else max_tokens)
    return [GenerationRequest("r", [1] * num_input, n=n, stopping=stopping)]


__all__ = ["MODEL", "TOKENS", "Counts", "Desk", "HandClock", "ask", "caller_with", "prompts"]
