"""Models with recurrent states: random histories of requests change no answer and lose no slot."""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from service.engine.core.sequences.choice_seed import choice_seed
from service.generation.requests.request import GenerationRequest
from tests.engine.core.drafters import SumDrafter
from tests.engine.fakes import Bench, config_of, request
from tests.engine.paged_runner import StateRunner, sums

pytestmark = pytest.mark.slow

_SYSTEM = "".join(random.Random(0).choices("abcdefgh", k=150))
_EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "25"))


class Histories(RuleBasedStateMachine):
    """Requests that share prefixes, continue each other's answers, are cancelled, preempted and drafted for."""

    @initialize(
        num_blocks=st.integers(70, 200),
        num_extra=st.integers(0, 6),
        chunk=st.integers(1, 90),
        rows=st.integers(1, 5),
        wrong=st.sampled_from([None, 0.0, 0.3, 1.0]),
        prefix_caching=st.booleans(),
    )
    def start(
        self, num_blocks: int, num_extra: int, chunk: int, rows: int, wrong: float | None, *, prefix_caching: bool
    ) -> None:
        config = config_of(
            num_blocks=num_blocks,
            max_model_len=280,
            max_batch_tokens=max(chunk, 40),
            max_batch_sequences=rows,
            max_prefill_chunk=chunk,
            prefix_caching=prefix_caching,
        )
        drafter = None if wrong is None else SumDrafter(wrong)
        self.bench = Bench(config, runner=StateRunner(), drafter=drafter, num_states=rows + num_extra)
        self.wanted: dict[int, GenerationRequest] = {}
        self.cancelled: set[int] = set()

    @rule(
        shared=st.integers(0, 150),
        own=st.text("xyz", min_size=1, max_size=30),
        n=st.integers(1, 3),
        max_tokens=st.integers(1, 90),
        salt=st.sampled_from("pq"),
    )
    def ask(self, shared: int, own: str, n: int, max_tokens: int, salt: str) -> None:
        self._add(list((_SYSTEM[:shared] + own).encode()), n, max_tokens, salt)

    @rule(data=st.data(), more=st.text("xyz", min_size=1, max_size=9))
    def continue_answer(self, data: st.DataObject, more: str) -> None:
        """Add a turn to a conversation, or resume an answer that has not ended."""
        if not self.wanted:
            return
        serial = data.draw(st.sampled_from(sorted(self.wanted)), "serial")
        before = self.wanted[serial]
        text = [*before.prompt_token_ids, *self.bench.tokens(serial), *more.encode()]
        if len(text) < 250:
            self._add(text, 1, 20, before.cache_salt)

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if self.wanted:
            serial = data.draw(st.sampled_from(sorted(self.wanted)), "serial")
            self.bench.core.abort(serial)
            self.cancelled.add(serial)

    @rule(count=st.integers(1, 60))
    def run_steps(self, count: int) -> None:
        for _ in range(count):
            if self.bench.core.has_work:
                self.bench.step()
            self.bench.clock.now += 0.01

    def teardown(self) -> None:
        if not hasattr(self, "bench"):
            return
        self.bench.run()
        self.bench.assert_idle()
        for serial, one in self.wanted.items():
            for index in range(one.n):
                tokens = self.bench.tokens(serial, index)
                assert tokens == sums(one.prompt_token_ids, len(tokens), choice_seed(0, index))
                assert serial in self.cancelled or len(tokens) == one.stopping.max_tokens

    def _add(self, prompt: list[int], n: int, max_tokens: int, salt: str) -> None:
        max_tokens = min(max_tokens, 280 - len(prompt))
        one = request(prompt, n=n, max_tokens=max_tokens, cache_salt=salt, ignore_eos=True)
        self.wanted[self.bench.add(one).serial] = one


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=_EXAMPLES, stateful_step_count=25)
