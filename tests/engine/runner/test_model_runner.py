"""The runner and the sampler with the real scheduler: other requests and chunking change no token."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from service.engine.core.blocks.block_pool import BlockPool
from service.engine.core.engine_core import EngineCore
from service.engine.core.scheduler import Scheduler
from service.engine.core.sequences.constraint_state import ConstraintState
from service.engine.interface.config import EngineConfig
from service.engine.models.selection.backends import choose_backend
from service.engine.runner.model_runner import ModelRunner
from service.engine.sampler.torch_sampler import TorchSampler
from service.generation.errors import ConstraintFailed, EngineError
from service.generation.outputs.output import GenerationOutput
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from tests.engine.driving import drive
from tests.engine.fake_constraint import FakeConstraint
from tests.engine.fakes import group_of
from tests.engine.folders.tiny_models import MAX_POSITIONS, save, spec, tokens

NUM_TOKENS = 30
GREEDY = SamplingParams(temperature=0)
MIXED = [
    GREEDY,
    SamplingParams(seed=5),
    SamplingParams(seed=2**62, temperature=1.5, top_k=20, top_p=0.9),
    SamplingParams(temperature=0, repetition_penalty=1.3, frequency_penalty=0.7, presence_penalty=0.4),
    SamplingParams(seed=8, min_p=0.02, typical_p=0.9, frequency_penalty=0.5),
    SamplingParams(seed=9, temperature=0.7),
]
PROMPTS = [tokens(length, seed=length) for length in (3, 17, 40, 9, 33, 21)]


@pytest.fixture(scope="module", params=["llama3-rope", "qwen3", "gpt2"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    return save(request.param, folder), folder


class Core:
    """A core on a loaded model, with small sizes."""

    def __init__(self, model: tuple[Any, Path], *, num_blocks: int = 64, **sizes: Any) -> None:
        config = EngineConfig(
            block_size=4, num_blocks=num_blocks, max_model_len=MAX_POSITIONS, max_queue_wait_s=math.inf, **sizes
        )
        source = spec(model[1])
        self.runner = ModelRunner(choose_backend(source).load(source), TorchSampler(), num_blocks, 4)
        self.core = EngineCore(Scheduler(config, BlockPool(num_blocks, 4)), self.runner)
        self.errors: list[EngineError] = []

    def generate(self, *requests: GenerationRequest, **constraints: ConstraintState) -> list[list[GenerationOutput]]:
        """Run the requests together, with the constraints of their ids; return the outputs of each."""
        groups = [group_of(request, max_model_len=MAX_POSITIONS) for request in requests]
        for group in groups:
            for sequence in group.sequences:
                sequence.constraint = constraints.get(group.request.request_id)
        outputs, self.errors = drive(self.core, groups)
        return outputs


def request(
    prompt: list[int],
    sampling: SamplingParams,
    *,
    request_id: str = "r",
    logprobs: LogprobsOptions | None = None,
) -> GenerationRequest:
    return GenerationRequest(request_id, prompt, sampling, StopParams(max_tokens=NUM_TOKENS), logprobs=logprobs)


REQUESTS = [request(prompt, sampling) for prompt, sampling in zip(PROMPTS, MIXED, strict=True)]


def ids(outputs: list[GenerationOutput]) -> list[int]:
    return [token_id for output in outputs for token_id in output.token_ids]


@pytest.fixture(scope="module")
def alone(model: tuple[Any, Path]) -> list[list[int]]:
    """Return each request's tokens when it runs alone."""
    return [ids(Core(model).generate(each)[0]) for each in REQUESTS]


@pytest.mark.slow
def test_greedy_equals_transformers_generate(model: tuple[Any, Path]) -> None:
    """Greedy tokens are those of transformers' own generate."""
    for prompt in PROMPTS:
        expected = model[0].generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.int64),
            max_new_tokens=NUM_TOKENS,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
        assert ids(Core(model).generate(request(prompt, GREEDY))[0]) == expected[0, len(prompt) :].tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "min_preemptions"),
    [
        ({}, 0),
        ({"max_batch_tokens": 16, "max_batch_sequences": 6}, 0),  # prompts in chunks
        ({"max_prefill_chunk": 5}, 0),
        ({"num_blocks": 30}, 1),  # too few for all requests, so some are preempted and recomputed
        ({"max_batch_sequences": 2}, 0),
    ],
    ids=["together", "chunked", "small chunks", "preempted", "two at a time"],
)
def test_tokens_do_not_depend_on_the_batch(
    model: tuple[Any, Path], alone: list[list[int]], sizes: dict[str, int], min_preemptions: int
) -> None:
    """Batched, chunked, or preempted and recomputed, each request gets the same tokens as alone."""
    core = Core(model, **sizes)
    assert [ids(outputs) for outputs in core.generate(*REQUESTS)] == alone
    assert core.core.stats().num_preemptions >= min_preemptions


def test_tokens_do_not_depend_on_the_prefix_cache(model: tuple[Any, Path], alone: list[list[int]]) -> None:
    """A cached prompt gives the same tokens as before."""
    core = Core(model)
    first = core.generate(*REQUESTS)
    second = core.generate(*REQUESTS)
    assert [ids(outputs) for outputs in second] == [ids(outputs) for outputs in first] == alone
    assert core.core.stats().num_prefix_hit_tokens > 0


def test_choices_differ_and_repeat(model: tuple[Any, Path]) -> None:
    """Choices of one request draw different tokens, and the same ones each time."""
    wanted = GenerationRequest("r", PROMPTS[1], SamplingParams(seed=3), StopParams(max_tokens=8), n=3)

    def by_choice() -> list[list[int]]:
        outputs = Core(model).generate(wanted)[0]
        return [ids([each for each in outputs if each.choice_index == index]) for index in range(3)]

    first = by_choice()
    assert first == by_choice()
    assert len({tuple(each) for each in first}) == 3


def test_logprobs_come_with_every_token(model: tuple[Any, Path]) -> None:
    """Each output has one logprob for its token, with the requested candidates."""
    outputs = Core(model).generate(request(PROMPTS[0], GREEDY, logprobs=LogprobsOptions(3)))[0]
    assert len(outputs) == NUM_TOKENS
    for output in outputs:
        (logprob,) = output.logprobs
        assert logprob.token_id == output.token_ids[0] == logprob.top[0][0]
        assert logprob.logprob == logprob.top[0][1] <= 0
        assert len(logprob.top) == 3


class Stuck(FakeConstraint):
    """A constraint that allows nothing."""

    def fill_mask(self, mask: Any) -> None:
        mask[:] = 0


def test_stuck_constraint_ends_its_request_only(model: tuple[Any, Path], alone: list[list[int]]) -> None:
    """The request fails with a ConstraintFailed; the others get their tokens."""
    core = Core(model)
    outputs = core.generate(REQUESTS[0], request(PROMPTS[1], GREEDY, request_id="stuck"), REQUESTS[2], stuck=Stuck())
    assert [ids(each) for each in outputs] == [alone[0], [], alone[2]]
    assert [type(error) for error in core.errors] == [ConstraintFailed]
