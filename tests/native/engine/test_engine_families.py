"""Every family in the engine: drafts, cached prefixes, preemption and a start from the middle change no answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gguf
import numpy as np
import pytest

from service.engine.core.blocks.block_pool import BlockPool
from service.engine.core.blocks.prefix_states import PrefixStates
from service.engine.core.blocks.state_pool import StatePool
from service.engine.core.drafts.prompt_drafter import PromptDrafter
from service.engine.core.drafts.speculation import Speculation
from service.engine.core.engine_core import EngineCore
from service.engine.core.scheduler import Scheduler
from service.engine.interface.config import EngineConfig
from service.engine.models.checkpoint.gguf.gguf_checkpoint import GgufCheckpoint
from service.engine.models.checkpoint.gguf.header import read_header
from service.engine.models.checkpoint.model_config import read_model_config
from service.engine.models.native.backend import NativeBackend, RecurrentBackend
from service.engine.models.native.block_sources import has_blocks
from service.engine.models.plans.families.table import FAMILIES, plan_of
from service.engine.runner.model_runner import ModelRunner
from service.engine.sampler.native_sampler import NativeSampler
from service.engine.tokens.watermark import Watermark
from service.generation.outputs.output import GenerationOutput
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from tests.engine.driving import drive
from tests.engine.fakes import group_of
from tests.engine.folders import gguf_families
from tests.engine.folders.gguf_backends import backend_of_file
from tests.engine.folders.gguf_families import write_family
from tests.models.families import model_of
from tests.models.shapes import VOCAB_SIZE
from tests.native.decoders import native

BLOCK_SIZE = 16
NUM_TOKENS = 20
FEW_BLOCKS = 7  # hold the prompts of two sequences, but not both answers
# Few different tokens repeat soon, so that there are drafts.
SAMPLED = SamplingParams(temperature=1.0, seed=7, logit_bias={5: 60.0, 6: 60.0, 7: 60.0})
GREEDY = SamplingParams(temperature=0.0)


class Answer(NamedTuple):
    """The tokens of an answer, with their logprobs, whose bits are compared."""

    token_ids: list[int]
    logprobs: list[float]


class Engine:
    """An engine's core over a backend, stepped until all requests have ended. Its clock stands still."""

    def __init__(
        self, backend: NativeBackend, num_blocks: int, *, has_drafts: bool, num_states: int, **sizes: Any
    ) -> None:
        config = EngineConfig(block_size=BLOCK_SIZE, num_blocks=num_blocks, max_queue_wait_s=600.0, **sizes)
        sampler = NativeSampler(Watermark(), lambda: 1)
        runner = ModelRunner(backend, sampler, num_blocks, BLOCK_SIZE, num_threads=1, num_states=num_states)
        speculation = Speculation(PromptDrafter(), lambda: 0.0) if has_drafts else None
        pool, states = BlockPool(num_blocks, BLOCK_SIZE), None
        if num_states:
            slots = StatePool(num_states, config.max_batch_sequences)
            states = PrefixStates(slots, pool, caches=config.prefix_caching)
        self.core = EngineCore(Scheduler(config, pool, speculation, states), runner, lambda: 0.0)
        self.is_shared = config.prefix_caching

    def answers(self, *requests: GenerationRequest) -> list[Answer]:
        groups = [group_of(each, cache_salt="" if self.is_shared else each.request_id) for each in requests]
        outputs, errors = drive(self.core, groups)
        assert not errors
        return [_answer(each) for each in outputs]


def _answer(outputs: Iterable[GenerationOutput]) -> Answer:
    """Return the answer of a request's outputs; its choices follow each other."""
    by_choice = sorted(outputs, key=lambda output: output.choice_index)
    return Answer(
        [token_id for output in by_choice for token_id in output.token_ids],
        [found.logprob for output in by_choice for found in output.logprobs],
    )


def request(
    name: str, prompt: Sequence[int], sampling: SamplingParams, num_tokens: int, num_choices: int = 1
) -> GenerationRequest:
    stopping = StopParams(max_tokens=num_tokens, ignore_eos=True)
    return GenerationRequest(name, prompt, sampling, stopping, num_choices, logprobs=LogprobsOptions())


NAMES = (*FAMILIES, "gemma4_text, experts")
# Each family, and caches of eight bits for plain attention, windows and a layer that has a state as well.
CASES = [
    *((name, "bfloat16", "auto") for name in NAMES),
    *((name, "bfloat16", "int8") for name in ("qwen3", "gemma3_text", "falcon_h1")),
    *(pytest.param(name, kind, "auto", marks=pytest.mark.long) for name in NAMES for kind in ("int8", "int4")),
]


@pytest.mark.parametrize(("name", "weight_type", "cache_type"), CASES)
def test_nothing_that_the_engine_does_changes_an_answer(name: str, weight_type: str, cache_type: str) -> None:
    """Tokens and logprobs of requests in a crowded engine are those of requests alone, for all families."""
    model = model_of(name)
    plan = plan_of(model.config)
    tensors = FAMILIES[model.config.model_type].tensors_in(model.state_dict().__contains__, plan)
    backend = NativeBackend(native(model, weight_type, cache_type=cache_type), plan, tensors, 1)
    assert_nothing_changes_an_answer(
        backend,
        num_states=32 if any(layer.recurrent for layer in plan.layers) else 0,
        may_end_early=name.startswith("gemma4") and weight_type != "bfloat16",
    )


# Files of Qwen3.5 have the value heads in another order than checkpoints; the step takes inputs in that order.
@pytest.mark.parametrize(
    "name", ["jamba", "mamba", "nemotron_h, experts", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_next"]
)
def test_nothing_changes_an_answer_of_recurrent_layers_in_the_blocks_of_a_file(name: str, tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    write_family(name, gguf_families.model_of(name), file, gguf.GGMLQuantizationType.Q8_0)
    backend, checkpoint = backend_of_file(file, "bfloat16"), GgufCheckpoint(tmp_path, [read_header(file)])
    plan = plan_of(read_model_config(tmp_path))
    assert has_blocks(checkpoint, plan, FAMILIES[name.partition(",")[0]].tensors_in(checkpoint.__contains__, plan))
    assert bool(checkpoint.input_orders) == name.startswith("qwen3_5")
    assert isinstance(backend, RecurrentBackend)
    backend.allocate_states(32)
    assert_nothing_changes_an_answer(backend, num_states=32)


def assert_nothing_changes_an_answer(backend: NativeBackend, *, num_states: int, may_end_early: bool = False) -> None:
    """Compare a crowded engine, with drafts and without, with requests alone. Blocks are always lacking without drafts.

    With drafts they are, too, unless answers `may_end_early`, since most drafts are right.
    """
    shared, own = ints(0, 34), ints(1, 9)
    wanted = [
        request("first", shared, SAMPLED, NUM_TOKENS),
        request("second", shared + own, SAMPLED, NUM_TOKENS),
        request("greedy", own + shared, GREEDY, NUM_TOKENS),
        request("two choices", shared, SAMPLED, NUM_TOKENS // 2, 2),
    ]
    roomy = Engine(
        backend,
        16,
        has_drafts=False,
        num_states=num_states,
        prefix_caching=False,
        max_model_len=64,
        max_batch_sequences=8,
    )
    expected = [roomy.answers(each)[0] for each in wanted]
    said = expected[2]
    wanted.append(request("rest", [*own, *shared, *said.token_ids[:8]], GREEDY, NUM_TOKENS - 8))
    expected.append(Answer(said.token_ids[8:], said.logprobs[8:]))
    for has_drafts in (True, False):
        crowded = Engine(
            backend,
            FEW_BLOCKS,
            has_drafts=has_drafts,
            num_states=num_states,
            max_model_len=64,
            max_batch_tokens=48,
            max_batch_sequences=8,
            max_prefill_chunk=12,
        )
        assert crowded.answers(*wanted) == expected
        assert [crowded.answers(wanted[0]), crowded.answers(wanted[0])] == [expected[:1]] * 2
        stats = crowded.core.stats()
        assert stats.num_prefix_hit_tokens > 0
        if not has_drafts:
            assert stats.num_preemptions > 0
            continue
        assert stats.num_draft_tokens > 0
        # Answers all of whose drafts are right end before blocks are lacking.
        are_all_right = stats.num_accepted_draft_tokens == stats.num_draft_tokens
        assert stats.num_preemptions > 0 or are_all_right or may_end_early


def ints(seed: int, count: int) -> list[int]:
    found: list[int] = np.random.default_rng(seed).integers(2, VOCAB_SIZE, count).tolist()
    return found
