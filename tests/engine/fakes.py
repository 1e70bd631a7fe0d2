"""A tokenizer of bytes and a runner for engine tests, whose output can be computed by hand."""

from __future__ import annotations

import asyncio
import math
from collections import abc
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from itertools import count

from service.engine.core.blocks.block_pool import BlockPool
from service.engine.core.blocks.prefix_states import PrefixStates
from service.engine.core.blocks.state_pool import StatePool
from service.engine.core.drafts.drafter import Drafter
from service.engine.core.drafts.speculation import Speculation
from service.engine.core.engine_core import EngineCore, SampledToken
from service.engine.core.scheduler import Scheduler
from service.engine.core.sequences.constraint_state import ConstraintState
from service.engine.core.sequences.sequence import NO_BLOCK, Sequence, SequenceGroup
from service.engine.core.step import Step
from service.engine.interface.cache_group import ONE_GROUP, CacheGroup
from service.engine.interface.config import EngineConfig
from service.engine.interface.messages import Report
from service.generation.errors import EngineError, SequenceError
from service.generation.outputs.output import GenerationOutput, TokenLogprob
from service.generation.requests.parameters import SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from tests.waiting import GUARD_S

END = 256
CONTROL = 257
BLOCK_SIZE = 4


class ByteTokenizer:
    """Token i is byte i, and two control tokens follow."""

    json = "{}"
    vocab_size = 258
    special_token_ids = frozenset({END, CONTROL})

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        return list(text.encode())

    def decode(self, ids: abc.Sequence[int], *, skip_special_tokens: bool = True) -> str:
        return b"".join(map(self.token_bytes, ids)).decode(errors="replace")

    def token_bytes(self, token_id: int) -> bytes:
        if token_id < 256:
            return bytes([token_id])
        return {END: b"<end>", CONTROL: b"<control>"}.get(token_id, b"")


class ChunkTokenizer(ByteTokenizer):
    """Token i is the i-th of the given chunks of bytes, so that any split of a text can be tested."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self.chunks = list(chunks)
        self.vocab_size = len(self.chunks)
        self.special_token_ids = frozenset()

    def token_bytes(self, token_id: int) -> bytes:
        return self.chunks[token_id]


Rule = Callable[[Sequence, list[int]], int]


def sum_rule(sequence: Sequence, context: list[int]) -> int:
    """Return a byte that depends on all tokens before it, on their number, and on the seed."""
    return (31 * sum(context) + 7 * len(context) + sequence.seed) % 256


def sums(prompt: Iterable[int], num_tokens: int, seed: int) -> list[int]:
    """Return the tokens that `sum_rule` generates."""
    tokens = list(prompt)
    num_prompt_tokens = len(tokens)
    for _ in range(num_tokens):
        tokens.append((31 * sum(tokens) + 7 * len(tokens) + seed) % 256)
    return tokens[num_prompt_tokens:]


def say(*texts: str, end: bool = True) -> Rule:
    """Return a rule by which choice i generates text i, byte by byte, and then ends or starts again."""
    scripts: list[list[int]] = [[*text.encode(), *([END] if end else [])] for text in texts]

    def rule(sequence: Sequence, context: list[int]) -> int:
        script = scripts[sequence.choice_index % len(scripts)]
        return script[sequence.num_generated_tokens % len(script)]

    return rule


class PagedRunner:
    """Stores each computed token in the memory of its blocks, and samples from the tokens that it reads there.

    So a wrong block table, a block with two owners or a stale cached block changes the output. A group with a window
    reads only the tokens that are visible in it, and so does each token that is computed.
    """

    num_replays = 0

    def __init__(self, rule: Rule = sum_rule, block_size: int = BLOCK_SIZE) -> None:
        self.rule = rule
        self.block_size = block_size
        self.groups: abc.Sequence[CacheGroup] = ONE_GROUP
        self.steps: list[list[tuple[int, int]]] = []  # for each step: (serial, number of new tokens)
        self.memory: dict[tuple[int, int], int] = {}
        self.kept: set[Sequence] = set()
        self.fail_with: BaseException | None = None
        self.bad_sequences: set[tuple[int, int]] = set()  # (serial, choice index) that end with a SequenceError

    def run(self, step: Step) -> list[SampledToken | SequenceError | None]:
        if self.fail_with is not None:
            raise self.fail_with
        self.steps.append([(item.sequence.group.serial, item.num_new_tokens) for item in step.items])
        for item in step.items:
            sequence = item.sequence
            self.kept.add(sequence)
            start = sequence.num_computed_tokens
            new = [*sequence.token_ids[start : start + item.num_new_tokens], *item.draft]
            for group in range(len(self.groups)):
                for position, token_id in enumerate(new, start):
                    self.memory[self._location(sequence, group, position)] = token_id
            end = start + item.num_new_tokens
            assert self._read(sequence, start, end) == sequence.token_ids[:end]
        return [self._sample(item.sequence) if item.samples else None for item in step.items]

    def follow(self, sequences: abc.Sequence[Sequence]) -> list[SampledToken | SequenceError]:
        return [self._sample(sequence) for sequence in sequences]

    def release(self, sequence: Sequence) -> None:
        self.kept.remove(sequence)  # raises KeyError if it never ran or was released before

    def _location(self, sequence: Sequence, group: int, position: int) -> tuple[int, int]:
        block_id = sequence.block_tables[group][position // self.block_size]
        assert block_id != NO_BLOCK
        return block_id, position % self.block_size

    def _read(self, sequence: Sequence, first: int, end: int) -> list[int]:
        """Return the tokens up to `end`; those that a token at `first` attends to are read from the memory."""
        context = list(sequence.token_ids[:end])
        for index, group in enumerate(self.groups):
            for position in range(group.first_visible(first), end):
                stored = self.memory[self._location(sequence, index, position)]
                if stored != sequence.token_ids[position]:
                    context[position] = stored
        return context

    def _sample(self, sequence: Sequence) -> SampledToken | SequenceError:
        if (sequence.group.serial, sequence.choice_index) in self.bad_sequences:
            return SequenceError("no token is allowed")
        num_tokens = len(sequence.token_ids)
        token_id = self.rule(sequence, self._read(sequence, num_tokens - 1, num_tokens))
        if sequence.request.logprobs is None:
            return SampledToken(token_id)
        return SampledToken(token_id, TokenLogprob(token_id, -0.5))


class StateRunner(PagedRunner):
    """A PagedRunner with recurrent states: a state is the list of all tokens before it.

    The state must have the tokens of the sequence, as its blocks must.
    """

    def __init__(self, rule: Rule = sum_rule, block_size: int = BLOCK_SIZE) -> None:
        super().__init__(rule, block_size)
        self.states: dict[int, list[int]] = {}  # by slot
        self.rows: dict[Sequence, list[int]] = {}  # the tokens of a sequence up to the step's last one
        self.num_kept_states = 0

    def run(self, step: Step) -> list[SampledToken | SequenceError | None]:
        written: list[int] = []
        earlier = dict(self.states)
        for sequence, num_new, _, draft in step.items:
            state, start = sequence.state, sequence.num_computed_tokens
            assert state is not None
            new = [*sequence.token_ids[start : start + num_new], *draft]
            before = list(earlier[state.source]) if start else []
            num_kept = len(new) - state.num_last
            assert num_kept or start
            written += [state.slot] * (num_kept > 0) + [state.last_slot] * (state.num_last > 0)
            self.num_kept_states += state.num_last > 0
            if num_kept:
                self.states[state.slot] = before + new[:num_kept]
            if state.num_last:
                self.states[state.last_slot] = before + new
            self.rows[sequence] = before + new
        assert len(set(written)) == len(written)
        return super().run(step)

    def _sample(self, sequence: Sequence) -> SampledToken | SequenceError:
        assert self.rows[sequence][: len(sequence.token_ids)] == sequence.token_ids
        return super()._sample(sequence)


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
    outputs: dict[tuple[int, int], list[GenerationOutput]] = field(default_factory=dict)
    errors: dict[int, list[EngineError]] = field(default_factory=dict)
    started: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        assert self.config.num_blocks is not None
        self.runner.rule, self.runner.block_size = self.rule, self.config.tokens_per_block
        self.runner.groups = self.cache_groups
        self.pool = BlockPool(self.config.num_blocks, self.config.tokens_per_block, groups=self.cache_groups)
        speculation = Speculation(self.drafter, self.clock) if self.drafter else None
        self.states: PrefixStates | None = None
        if self.num_states:
            self.states = PrefixStates(StatePool(self.num_states), self.pool, caches=self.config.prefix_caching)
        self.scheduler = Scheduler(self.config, self.pool, speculation, self.states)
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
