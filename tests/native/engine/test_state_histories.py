"""Small models with recurrent layers: random histories of requests change no bit of an answer."""

from __future__ import annotations

import os
import random
from collections import abc
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gguf
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from service.engine.core.blocks.block_pool import BlockPool
from service.engine.core.blocks.prefix_states import PrefixStates
from service.engine.core.blocks.state_pool import StatePool
from service.engine.core.drafts.drafter import DraftRequest
from service.engine.core.drafts.speculation import Speculation
from service.engine.core.engine_core import EngineCore
from service.engine.core.scheduler import Scheduler
from service.engine.core.sequences.sequence import Sequence
from service.engine.interface.config import EngineConfig
from service.engine.models.native.backend import RecurrentBackend
from service.engine.models.plans.families.table import FAMILIES, plan_of
from service.engine.runner.model_runner import ModelRunner
from service.engine.sampler.native_sampler import NativeSampler
from service.generation.outputs.output import GenerationOutput
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from tests.engine.byte_tokenizer import ByteTokenizer
from tests.engine.fakes import group_of
from tests.engine.folders import gguf_families
from tests.engine.folders.gguf_backends import backend_of_file
from tests.models.families import model_of
from tests.models.shapes import VOCAB_SIZE
from tests.native.decoders import native

IN_BLOCKS = "qwen3_5_text in blocks"  # of a file, whose value heads have another order
KINDS = ("falcon_h1", "jamba", "lfm2", "minimax", "qwen3_5_text", IN_BLOCKS)  # with each kind of recurrence
MAX_LEN = 160
pytestmark = pytest.mark.slow

_SYSTEM = random.Random(0).choices(range(3, VOCAB_SIZE), k=80)
_EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "8"))

Answer = list[tuple[int, float]]  # each token with its logprob


class Foresight:
    """A drafter that proposes the tokens of the answers computed alone, a fraction `wrong` of them changed."""

    is_costly = False

    def __init__(self, wrong: float) -> None:
        self._wrong, self._random = wrong, random.Random(0)

    def propose(self, requests: abc.Sequence[DraftRequest]) -> list[list[int]]:
        return [self._guess(sequence, most) for sequence, _, most in requests]

    def _guess(self, sequence: Sequence, most: int) -> list[int]:
        known = alone(sequence.request, sequence.choice_index)
        first = sequence.num_generated_tokens
        right = [token_id for token_id, _ in known[first : first + most]]
        return [3 if self._random.random() < self._wrong else token_id for token_id in right]

    def release(self, sequence: Sequence) -> None:
        del sequence


class Core:
    """An engine's core on a small model, with the answers that it reports."""

    def __init__(self, backend: RecurrentBackend, config: EngineConfig, num_states: int, wrong: float | None) -> None:
        assert config.num_blocks is not None
        pool = BlockPool(config.num_blocks, config.tokens_per_block)
        states = PrefixStates(StatePool(num_states, config.max_batch_sequences), pool, caches=config.prefix_caching)
        speculation = None if wrong is None else Speculation(Foresight(wrong))
        runner = ModelRunner(backend, NativeSampler(), config.num_blocks, 16, num_states=num_states)
        self.caches = config.prefix_caching
        self.core = EngineCore(Scheduler(config, pool, speculation, states), runner)
        self.answers: dict[tuple[int, int], Answer] = {}

    def add(self, wanted: GenerationRequest, serial: int) -> None:
        salt = wanted.cache_salt if self.caches else f"alone {serial}"
        group = group_of(wanted, serial=serial, max_model_len=MAX_LEN, cache_salt=salt, tokenizer=ByteTokenizer())
        self.answers |= {(serial, index): [] for index in range(wanted.n)}
        self.core.add(group)

    def step(self) -> None:
        self.core.step()
        self.core.check()
        for serial, output in self.core.report().outputs:
            assert isinstance(output, GenerationOutput)
            assert output.logprobs is not None
            answer = self.answers[serial, output.choice_index]
            answer += [(each.token_id, each.logprob) for each in output.logprobs]


@cache
def backend_of(kind: str, copy: int) -> RecurrentBackend:
    """Return a backend of its own for each `copy`, since a core allocates its cache and states."""
    del copy
    if kind == IN_BLOCKS:
        return in_blocks()
    model = model_of(kind)
    return RecurrentBackend(native(model), plan_of(model.config), FAMILIES[kind].tensors, 1)


def in_blocks() -> RecurrentBackend:
    """Return a backend of a file."""
    name = IN_BLOCKS.partition(" ")[0]
    with TemporaryDirectory() as folder:
        file = Path(folder) / "tiny.gguf"
        gguf_families.write_family(name, gguf_families.model_of(name), file, gguf.GGMLQuantizationType.Q8_0)
        backend = backend_of_file(file, "bfloat16")
    assert isinstance(backend, RecurrentBackend)
    return backend


_alone: dict[tuple[Any, ...], Answer] = {}


def alone(wanted: GenerationRequest, choice_index: int) -> Answer:
    """Return the answer that a choice has in a fresh engine without prefix caching, company, chunks and drafts."""
    key = (wanted.request_id, *wanted.prompt_token_ids)
    if (*key, choice_index, wanted.stopping.max_tokens) not in _alone:
        config = _config(num_blocks=40, chunk=MAX_LEN, rows=4, prefix_caching=False)
        core = Core(backend_of(wanted.request_id, 1), config, 8, None)
        core.add(replace(wanted, n=max(wanted.n, 1)), 0)
        while core.core.has_work:
            core.step()
        for index in range(wanted.n):
            _alone[(*key, index, wanted.stopping.max_tokens)] = core.answers[0, index]
    return _alone[(*key, choice_index, wanted.stopping.max_tokens)]


def _config(*, num_blocks: int, chunk: int, rows: int, prefix_caching: bool) -> EngineConfig:
    return EngineConfig(
        block_size=16,
        num_blocks=num_blocks,
        max_model_len=MAX_LEN,
        max_batch_tokens=max(chunk, 40),
        max_batch_sequences=rows,
        max_prefill_chunk=chunk,
        prefix_caching=prefix_caching,
        max_queue_wait_s=600.0,
    )


class Histories(RuleBasedStateMachine):
    """Requests that share prefixes, continue each other's answers, are cancelled, preempted and drafted for."""

    @initialize(
        kind=st.sampled_from(KINDS),
        num_blocks=st.integers(10, 30),
        num_extra=st.integers(0, 5),
        chunk=st.integers(5, 90),
        rows=st.integers(1, 4),
        wrong=st.sampled_from([None, 0.0, 0.3, 1.0]),
        prefix_caching=st.booleans(),
    )
    def start(
        self,
        *,
        kind: str,
        num_blocks: int,
        num_extra: int,
        chunk: int,
        rows: int,
        wrong: float | None,
        prefix_caching: bool,
    ) -> None:
        config = _config(num_blocks=num_blocks, chunk=chunk, rows=rows, prefix_caching=prefix_caching)
        self.kind = kind
        self.run = Core(backend_of(kind, 0), config, rows + num_extra, wrong)
        self.wanted: list[GenerationRequest] = []
        self.cancelled: set[int] = set()

    @rule(
        shared=st.integers(0, 80),
        own=st.lists(st.integers(3, VOCAB_SIZE - 1), min_size=1, max_size=20),
        n=st.integers(1, 2),
        max_tokens=st.integers(1, 40),
        salt=st.sampled_from("pq"),
    )
    def ask(self, shared: int, own: list[int], n: int, max_tokens: int, salt: str) -> None:
        self._add(_SYSTEM[:shared] + own, n, max_tokens, salt)

    @rule(data=st.data(), more=st.lists(st.integers(3, VOCAB_SIZE - 1), min_size=1, max_size=5))
    def continue_answer(self, data: st.DataObject, more: list[int]) -> None:
        """Add a turn to a conversation, or resume an answer that has not ended."""
        if self.wanted:
            serial = data.draw(st.integers(0, len(self.wanted) - 1), "serial")
            before = self.wanted[serial]
            said = [token_id for token_id, _ in self.run.answers[serial, 0]]
            text = [*before.prompt_token_ids, *said, *more]
            if len(text) < MAX_LEN - 10:
                self._add(text, 1, 10, before.cache_salt)

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if self.wanted:
            serial = data.draw(st.integers(0, len(self.wanted) - 1), "serial")
            self.run.core.abort(serial)
            self.cancelled.add(serial)

    @rule(count=st.integers(1, 30))
    def compute(self, count: int) -> None:
        for _ in range(count):
            if self.run.core.has_work:
                self.run.step()

    def teardown(self) -> None:
        if not hasattr(self, "run"):
            return
        while self.run.core.has_work:
            self.run.step()
        stats = self.run.core.stats()
        assert (stats.num_running, stats.num_waiting, stats.num_free_blocks) == (0, 0, stats.num_blocks)
        for serial, one in enumerate(self.wanted):
            for index in range(one.n):
                answer = self.run.answers[serial, index]
                assert answer == alone(one, index)[: len(answer)]
                assert serial in self.cancelled or len(answer) == one.stopping.max_tokens

    def _add(self, prompt: list[int], n: int, max_tokens: int, salt: str) -> None:
        one = GenerationRequest(
            request_id=self.kind,
            prompt_token_ids=prompt,
            sampling=SamplingParams(seed=len(prompt), temperature=0.8),
            stopping=StopParams(max_tokens=min(max_tokens, MAX_LEN - len(prompt)), ignore_eos=True),
            logprobs=LogprobsOptions(0),
            cache_salt=salt,
            n=n,
        )
        self.run.add(one, len(self.wanted))
        self.wanted.append(one)


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=_EXAMPLES, stateful_step_count=15)
