"""A tokenizer, requests, and a core with a runner whose output can be computed by hand."""

from __future__ import annotations

import asyncio
import math
from collections import abc
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from itertools import count

from service.engine.core.blocks.block_pool import BlockPool
from service.engine.core.blocks.cache_entry import merge
from service.engine.core.blocks.cache_index import CacheIndex
from service.engine.core.blocks.prefix_states import PrefixStates
from service.engine.core.blocks.state_pool import StatePool
from service.engine.core.drafts.drafter import Drafter
from service.engine.core.drafts.speculation import Speculation
from service.engine.core.engine_core import EngineCore
from service.engine.core.scheduler import Scheduler
from service.engine.core.sequences.constraint_state import ConstraintState
from service.engine.core.sequences.sequence import SequenceGroup
from service.engine.interface.cache_group import ONE_GROUP, CacheGroup
from service.engine.interface.config import EngineConfig
from service.engine.interface.messages import Report
from service.generation.errors import EngineError
from service.generation.outputs.output import GenerationOutput
from service.generation.requests.parameters import SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from tests.engine.byte_tokenizer import END, ByteTokenizer
from tests.engine.paged_runner import BLOCK_SIZE, PagedRunner, Rule, sum_rule
from tests.waiting import GUARD_S


def request(
    prompt: str | abc.Sequence[int] = "hello",
    *,
    request_id: str = "r",
    max_tokens: int | None = 8,
    seed: int | None = 0,
    stop: abc.Sequence[str] = (),
    min_tokens: int = 0,
    ignore_eos: bool = False,
    **fields: object,
) -> GenerationRequest:
    """Return a request with a short prompt. Its answer ends only by the given limits."""
    return GenerationRequest(
        request_id=request_id,
        prompt_token_ids=list(prompt.encode()) if isinstance(prompt, str) else prompt,
        sampling=SamplingParams(seed=seed),
        stopping=StopParams(max_tokens=max_tokens, min_tokens=min_tokens, stop=stop, ignore_eos=ignore_eos),
        **fields,  # type: ignore[arg-type]
    )


_serials = count()


def group_of(
    wanted: GenerationRequest,
    *,
    serial: int | None = None,
    arrived: float = 0.0,
    max_model_len: int = 4096,
    cache_salt: str = "",
    tokenizer: ByteTokenizer | None = None,
    constraint: ConstraintState | None = None,
) -> SequenceGroup:
    return SequenceGroup(
        wanted,
        tokenizer or ByteTokenizer(),
        serial=next(_serials) if serial is None else serial,
        seed=wanted.sampling.seed or 0,
        arrived=arrived,
        eos_token_ids=(END,),
        max_model_len=max_model_len,
        cache_salt=cache_salt or wanted.cache_salt,
        constraint=constraint,
    )


@dataclass
class Clock:
    """A clock that the test sets."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def config_of(**sizes: object) -> EngineConfig:
    """Return small sizes, so that a few tokens fill a block and a few blocks fill the cache."""
    defaults: dict[str, object] = {"block_size": BLOCK_SIZE, "num_blocks": 64, "max_model_len": 128}
    defaults["max_queue_wait_s"] = math.inf  # tests set clocks and delay steps
    return EngineConfig(**{**defaults, **sizes})  # type: ignore[arg-type]


@dataclass
class Bench:
    """A core with a paged runner that the test steps, with all of its reports."""

    config: EngineConfig = field(default_factory=config_of)
    rule: Rule = sum_rule
    clock: Clock = field(default_factory=Clock)
    runner: PagedRunner = field(default_factory=PagedRunner)  # with the rule and the block size given here
    drafter: Drafter | None = None
    cache_groups: abc.Sequence[CacheGroup] = ONE_GROUP
    num_states: int = 0  # slots for recurrent states; 0: the model has none
    indexes: tuple[CacheIndex, CacheIndex] | None = None  # of blocks and states that an earlier core has left
    outputs: dict[tuple[int, int], list[GenerationOutput]] = field(default_factory=dict)
    errors: dict[int, list[EngineError]] = field(default_factory=dict)
    started: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        assert self.config.num_blocks is not None
        self.runner.rule, self.runner.block_size = self.rule, self.config.tokens_per_block
        self.runner.groups = self.cache_groups
        blocks, slots = self.indexes or (None, None)
        left = merge(blocks.contents(), dict(slots.contents())) if blocks and slots else []
        self.pool = BlockPool(
            self.config.num_blocks, self.config.tokens_per_block, groups=self.cache_groups, index=blocks
        )
        speculation = Speculation(self.drafter, self.clock) if self.drafter else None
        self.states: PrefixStates | None = None
        if self.num_states:
            self.states = PrefixStates(
                StatePool(self.num_states, self.config.max_batch_sequences, index=slots),
                self.pool,
                caches=self.config.prefix_caching,
            )
        self.scheduler = Scheduler(self.config, self.pool, speculation, self.states)
        self.scheduler.memory.adopt(left)
        self.core = EngineCore(self.scheduler, self.runner, self.clock)
        self._serials = count()
        self.groups: dict[int, SequenceGroup] = {}

    def add(self, wanted: GenerationRequest, constraint: ConstraintState | None = None) -> SequenceGroup:
        serial = next(self._serials)
        assert self.config.max_model_len is not None
        group = group_of(
            wanted,
            serial=serial,
            arrived=self.clock.now,
            max_model_len=self.config.max_model_len,
            cache_salt=wanted.cache_salt if self.config.prefix_caching else f"alone {serial}",
            constraint=constraint,
        )
        self.core.add(group)
        self.groups[serial] = group
        return group

    def waits(self, caller_id: str) -> bool:
        """Return whether a request of this key has not started."""
        return any(
            group.request.caller_id == caller_id and serial not in self.started for serial, group in self.groups.items()
        )

    def step(self) -> Report:
        self.core.step()
        report = self.core.report()
        self.core.check()
        self.started.extend(report.started)
        for serial, output in report.outputs:
            assert isinstance(output, GenerationOutput)
            self.outputs.setdefault((serial, output.choice_index), []).append(output)
        for serial, error in report.errors:
            self.errors.setdefault(serial, []).append(error)
        return report

    def run(self) -> None:
        while self.core.has_work:
            self.step()

    def tokens(self, serial: int = 0, choice_index: int = 0) -> list[int]:
        return [i for output in self.outputs.get((serial, choice_index), ()) for i in output.token_ids]

    def text(self, serial: int = 0, choice_index: int = 0) -> str:
        return "".join(output.text for output in self.outputs.get((serial, choice_index), ()))

    def assert_idle(self) -> None:
        """Assert that every block is free and no state of a sequence is left."""
        self.core.check()
        stats = self.core.stats()
        assert (stats.num_running, stats.num_waiting) == (0, 0)
        assert stats.num_free_blocks == stats.num_blocks
        assert not self.runner.kept


async def read(outputs: AsyncIterator[GenerationOutput]) -> list[GenerationOutput]:
    return [output async for output in outputs]


async def until(condition: Callable[[], bool]) -> None:
    """Return as soon as the condition holds. Raise TimeoutError if it never does."""
    async with asyncio.timeout(GUARD_S):
        while not condition():  # noqa: ASYNC110  the condition may depend on another thread or process
            await asyncio.sleep(0.001)
