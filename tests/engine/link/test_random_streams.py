"""The engine with its real sampler under random load: all blocks are released, and every stream ends once."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter, abc
from typing import Any

import numpy as np
import pytest
import torch

from service.engine.client.generator import GeneratorClient
from service.engine.core.engine_core import SampledToken
from service.engine.core.generator_core import GeneratorCore
from service.engine.core.sequences.sequence import Sequence
from service.engine.core.step import Step
from service.engine.link.thread_link import ThreadLink
from service.engine.sampler.torch_sampler import TorchSampler
from service.generation.errors import DeadlineExceeded, EngineError, EngineOverloaded, SequenceError
from service.generation.formats.constraint import Constraint, Grammar
from service.generation.outputs.output import FinishReason, GenerationOutput
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from tests.engine.byte_tokenizer import END, ByteTokenizer
from tests.engine.fake_constraint import FakeConstraint
from tests.engine.fakes import Clock, config_of
from tests.engine.paged_runner import PagedRunner
from tests.waiting import GUARD_S

NUM_REQUESTS = 2000
VOCAB_SIZE = ByteTokenizer.vocab_size
STEP_S = 0.001


class SamplingRunner(PagedRunner):
    """A paged runner whose logits depend on the tokens in memory and are sampled by the real sampler.

    Each step takes `STEP_S` by the clock.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.sampler = TorchSampler()
        self.table = torch.randn(997, VOCAB_SIZE, generator=torch.Generator().manual_seed(0)) * 3

    def run(self, step: Step) -> list[SampledToken | SequenceError | None]:
        super().run(step)
        self.clock.now += STEP_S
        sampling = [item.sequence for item in step.items if item.samples]
        if not sampling:
            return [None] * len(step.items)
        rows = torch.tensor([self._digest(sequence) % len(self.table) for sequence in sampling])
        results = iter(self.sampler.sample(self.table[rows], sampling))
        return [next(results) if item.samples else None for item in step.items]

    def release(self, sequence: Sequence) -> None:
        super().release(sequence)
        self.sampler.release(sequence)

    def _sample(self, sequence: Sequence) -> None:  # type: ignore[override]
        """Do nothing: `run` samples for all sequences at once."""

    def _digest(self, sequence: Sequence) -> int:
        digest = 0
        for position in range(len(sequence.token_ids)):
            digest = (31 * digest + self.memory[self._location(sequence, 0, position)] + 1) % 1_000_003
        return digest


class AlternatingConstraint(FakeConstraint):
    """Allows vowels and consonants in turn. It ends after `limit` tokens, or fails there."""

    def __init__(self, limit: int, *, fails: bool, num_accepted: int = 0) -> None:
        self.limit, self.fails, self.num_accepted = limit, fails, num_accepted

    def fill_mask(self, mask: Any) -> None:
        if self.fails and self.num_accepted >= self.limit:
            raise RuntimeError("the grammar is lost")
        bits = np.zeros(32 * len(mask), dtype=np.uint8)
        bits[list(b"bcdfgh" if self.num_accepted % 2 else b"aeiou")] = 1
        mask[:] = np.packbits(bits, bitorder="little").view(np.int32)

    def accept(self, token_id: int) -> None:
        assert token_id in (b"bcdfgh" if self.num_accepted % 2 else b"aeiou")
        self.num_accepted += 1

    def is_finished(self) -> bool:
        return not self.fails and self.num_accepted >= self.limit

    def fork(self) -> AlternatingConstraint:
        return AlternatingConstraint(self.limit, fails=self.fails, num_accepted=self.num_accepted)


def random_request(draw: random.Random, serial: int, now: float) -> GenerationRequest:
    """Return a request with random parameters and a prompt that may share a prefix with others."""
    max_tokens = draw.choice([1, 2, 3, 6, 12, 12, 12]) if draw.random() < 0.9 else None
    prompt = draw.choice([b"", b"system: be brief. ", b"once upon a time "]) + bytes(draw.choices(b"ab", k=20))
    rule = json.dumps([draw.randint(1, 12), draw.random() < 0.2])
    constraint = Constraint(Grammar(rule, "alternating")) if draw.random() < 0.3 else None
    return GenerationRequest(
        f"{serial}",
        list(prompt[: draw.randint(1, len(prompt))]),
        SamplingParams(
            temperature=draw.choice([0, 0.5, 1, 2]),
            top_k=draw.choice([None, None, 1, 20]),
            top_p=draw.choice([1, 1, 0.7]),
            min_p=draw.choice([0, 0, 0.1]),
            typical_p=draw.choice([1, 1, 0.8]),
            repetition_penalty=draw.choice([1, 1, 1.3]),
            frequency_penalty=draw.choice([0, 0, 0.5]),
            presence_penalty=draw.choice([0, 0, -1]),
            logit_bias=draw.choice([{}, {}, {97: 3.0, 98: -100.0}]),
            seed=draw.getrandbits(64),
            watermark=draw.random() < 0.2,
        ),
        StopParams(
            max_tokens,
            min_tokens=draw.choice([0, 0, 2]) if max_tokens != 1 else 0,
            stop=draw.choice([(), (), ("a",), ("ee", "i")]),
            stop_token_ids=draw.choice([(), (), (100,)]),
            ignore_eos=draw.random() < 0.3,
        ),
        n=draw.choice([1, 1, 1, 1, 1, 1, 2, 3]),
        logprobs=draw.choice([None, None, LogprobsOptions(0), LogprobsOptions(3)]),
        prompt_logprobs=draw.choice([None, None, None, LogprobsOptions(2)]),
        constraint=constraint,
        deadline=now + draw.random() if draw.random() < 0.05 else None,
        priority=draw.randrange(3),
    )


def compiled(constraint: Constraint) -> AlternatingConstraint:
    assert constraint.grammar is not None
    limit, fails = json.loads(constraint.grammar.text)
    return AlternatingConstraint(limit, fails=fails)


def engine_of(clock: Clock, **sizes: object) -> tuple[GeneratorClient, SamplingRunner]:
    runner, config, tokenizer = SamplingRunner(clock), config_of(**sizes), ByteTokenizer()
    core = GeneratorCore(runner, tokenizer, config, eos_token_ids=[END], compile_constraint=compiled, clock=clock)
    client = GeneratorClient(
        ThreadLink(core), config, vocab_size=tokenizer.vocab_size, clock=clock, max_compile_wait_s=GUARD_S
    )
    return client, runner


async def read(
    engine: GeneratorClient, wanted: GenerationRequest, leave_after: int | None
) -> tuple[str, list[GenerationOutput]]:
    """Return how the stream ended, and its outputs.

    The reader leaves after `leave_after` outputs, unless it is None.
    """
    outputs: list[GenerationOutput] = []
    try:
        async with engine.generate(wanted) as stream:
            if leave_after == 0:
                return "left", outputs
            async for output in stream:
                outputs.append(output)
                if len(outputs) == leave_after:
                    return "left", outputs
            assert [output async for output in stream] == []
    except EngineError as error:
        return type(error).__name__, outputs
    return "ended", outputs


def tokens(outputs: abc.Sequence[GenerationOutput], choice_index: int) -> list[int]:
    return [i for output in outputs if output.choice_index == choice_index for i in output.token_ids]


@pytest.mark.long
async def test_2000_random_streams_end_once_and_leave_nothing() -> None:
    """With a cache for three sequences, each stream ends once with the tokens it has alone, and releases its blocks."""
    torch.set_num_threads(1)
    draw, clock = random.Random(7), Clock()
    engine, runner = engine_of(
        clock,
        num_blocks=40,
        max_model_len=96,
        max_batch_tokens=48,
        max_batch_sequences=8,
        max_prefill_chunk=16,
        max_queue_wait_s=60.0,
    )
    requests = [random_request(draw, serial, clock.now) for serial in range(NUM_REQUESTS)]
    leave_after = [draw.randrange(10) if draw.random() < 0.2 else None for _ in requests]
    slots = asyncio.Semaphore(30)

    async def run(wanted: GenerationRequest, leave: int | None) -> tuple[str, list[GenerationOutput]]:
        async with slots:
            return await read(engine, wanted, leave)

    async with engine:
        answers = await asyncio.gather(*map(run, requests, leave_after))
        await engine.check()
    stats = engine.stats()
    assert (stats.num_running, stats.num_waiting, stats.num_free_blocks) == (0, 0, stats.num_blocks)
    assert not runner.kept
    assert stats.num_preemptions > 0

    ends = Counter(end for end, _ in answers)
    overloaded = EngineOverloaded.__name__  # if the expected wait leaves too little of the time until the deadline
    assert ends.keys() - {overloaded} == {"ended", "left", DeadlineExceeded.__name__, "ConstraintFailed"}
    assert all(wanted.deadline for wanted, (end, _) in zip(requests, answers, strict=True) if end == overloaded)
    reasons = Counter(output.finish_reason for _, outputs in answers for output in outputs)
    assert reasons.keys() == {None, *FinishReason} - {FinishReason.TOOL_CALLS}
    for wanted, (end, outputs) in zip(requests, answers, strict=True):
        for index in range(wanted.n):
            mine = [output for output in outputs if output.choice_index == index]
            lasts = [output.finish_reason is not None for output in mine]
            assert not any(lasts[:-1])
            assert end != "ended" or lasts[-1]
            assert all(len(output.logprobs) in (0, len(output.token_ids)) for output in mine)

    await check_alone([(wanted, answer) for wanted, answer in zip(requests, answers, strict=True)][::40])


async def check_alone(sample: abc.Sequence[tuple[GenerationRequest, tuple[str, list[GenerationOutput]]]]) -> None:
    """Assert that each of these requests gets the same tokens alone, up to the point where it ended."""
    engine, _ = engine_of(Clock(), num_blocks=400, max_model_len=96, prefix_caching=False)
    async with engine:
        for wanted, (end, outputs) in sample:
            undisturbed = GenerationRequest(
                **{name: getattr(wanted, name) for name in wanted.__slots__} | {"deadline": None}
            )
            _, alone = await read(engine, undisturbed, None)
            for index in range(wanted.n):
                found, expected = tokens(outputs, index), tokens(alone, index)
                assert found == (expected if end == "ended" else expected[: len(found)])
