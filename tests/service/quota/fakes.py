"""A driven clock, and a quota that records the states and counts that it reports."""

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
    """A clock in seconds that tests advance."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Counts:
    """A QuotaObserver that records its calls."""

    used: list[tuple[str, str, int, int]] = field(default_factory=list)
    rejections: list[tuple[str, str, str]] = field(default_factory=list)

    def on_use(self, caller: str, model: str, num_input: int, num_output: int) -> None:
        self.used.append((caller, model, num_input, num_output))

    def on_rejection(self, caller: str, model: str, measure: Measure) -> None:
        self.rejections.append((caller, model, str(measure)))


class Desk:
    """A quota over a store, by default one in memory with a driven clock, and the states that it reported."""

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
        """The headers that the caller received last."""
        return dict(rate_limit_headers(self.statuses))

    def _on_status(self, statuses: Sequence[LimitStatus]) -> None:
        self.statuses = statuses

    @asynccontextmanager
    async def request(
        self, caller: Caller, num_input: int = 1, max_tokens: int | None = 1, *, n: int = 1
    ) -> AsyncIterator[Charge]:
        """Send one request that stays admitted during the block and takes its tokens."""
        async with self.quota.admit(caller, MODEL, self._on_status) as charge:
            bounds = charge.bound(ask(max_tokens, n))
            await charge.take_for(asked_as(max_tokens, bounds), prompts(num_input, bounds.stopping.max_tokens, n))
            yield charge

    async def spend(self, caller: Caller, num_input: int, num_output: int, max_tokens: int | None = None) -> None:
        """Send one request, and complete it."""
        async with self.request(caller, num_input, max_tokens) as charge:
            charge.count(lambda: Usage(num_input, num_output))

    async def read(self, caller: Caller, num_tokens: int) -> None:
        """Send one request without generated tokens."""
        async with self.quota.admit(caller, MODEL, self._on_status, (Measure.INPUT_TOKENS,)) as charge:
            await charge.take_input(num_tokens, "inputs")
            charge.count(lambda: Usage(num_tokens))


def caller_with(**limits: int) -> Caller:
    """Return a caller with these limits."""
    return Caller(id="k1", limits=Limits(**limits))


def ask(max_tokens: int | None = None, n: int = 1) -> AnswerRequest:
    """Return the parameters of a caller's request."""
    return AnswerRequest(
        MODEL, [RawText("x", "prompts[0]")], "prompts", n=n, stopping=StopParams(max_tokens=max_tokens)
    )


def asked_as(max_tokens: int | None, bound: AnswerRequest) -> AnswerRequest:
    """Return the parameters before bounding: a bound is not the caller's own value."""
    return bound if max_tokens is not None else ask(None, bound.n)


def prompts(num_input: int, max_tokens: int | None, n: int = 1) -> list[GenerationRequest]:
    """Return one prepared prompt, which leaves 1,000 tokens of context for the answer."""
    stopping = StopParams(max_tokens=1000 if max_tokens is None else max_tokens)
    return [GenerationRequest("r", [1] * num_input, n=n, stopping=stopping)]


__all__ = ["MODEL", "TOKENS", "Counts", "Desk", "HandClock", "ask", "caller_with", "prompts"]
