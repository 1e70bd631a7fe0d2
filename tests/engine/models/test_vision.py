"""A model with image input gives transformers' tokens, for every chunking, batch, cached prefix and preemption."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from service.engine.core.blocks.block_pool import BlockPool
from service.engine.core.engine_core import EngineCore
from service.engine.core.scheduler import Scheduler
from service.engine.interface.config import EngineConfig
from service.engine.models.modules.vision_backend import VisionBackend
from service.engine.models.selection.backends import choose_backend
from service.engine.runner.model_runner import ModelRunner
from service.engine.sampler.torch_sampler import TorchSampler
from service.generation.outputs.output import GenerationOutput
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from tests.engine.driving import drive
from tests.engine.fakes import group_of
from tests.engine.folders.tiny_models import spec
from tests.engine.folders.vision_models import (
    MAX_POSITIONS,
    NUM_IMAGE_TOKENS,
    expected,
    picture,
    prompt_of,
    save_vision_model,
)

NUM_TOKENS = 10
CAT, DOG = picture(1), picture(2, (20, 90))
PROMPTS: dict[str, tuple[Any, ...]] = {
    "text": (23,),
    "image": (5, CAT, 9),
    "two images": (3, CAT, 4, DOG, 6),
    "images side by side": (7, DOG, CAT, 2),
    "image first": (CAT, 12),
    "image last": (6, DOG),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vision")


@pytest.fixture(scope="module")
def answers(folder: Path) -> dict[str, list[int]]:
    """Return transformers' answers to each prompt."""
    model = save_vision_model(folder)
    return {
        name: expected(model, folder, prompt_of(folder, *parts)[0], parts, NUM_TOKENS)
        for name, parts in PROMPTS.items()
    }


class Product:
    """An engine core with the model of `folder`."""

    def __init__(self, folder: Path, *, num_blocks: int = 200, **sizes: Any) -> None:
        config = EngineConfig(
            block_size=4, num_blocks=num_blocks, max_model_len=MAX_POSITIONS, max_queue_wait_s=math.inf, **sizes
        )
        source = spec(folder)
        row = choose_backend(source)
        assert row.takes_images
        backend = row.load(source)
        assert isinstance(backend, VisionBackend)
        self.scheduler = Scheduler(config, BlockPool(num_blocks, 4))
        self.core = EngineCore(self.scheduler, ModelRunner(backend, TorchSampler(), num_blocks, 4))

    def run(self, *requests: GenerationRequest) -> list[list[GenerationOutput]]:
        """Run requests together and return their outputs."""
        outputs, errors = drive(self.core, [group_of(request, max_model_len=MAX_POSITIONS) for request in requests])
        assert not errors
        return outputs

    def answers(self, *requests: GenerationRequest) -> list[list[int]]:
        """Return the tokens of each request's first choice."""
        return [tokens_of(outputs) for outputs in self.run(*requests)]


def tokens_of(outputs: list[GenerationOutput], choice: int = 0) -> list[int]:
    return [token for output in outputs if output.choice_index == choice for token in output.token_ids]


def asked(folder: Path, name: str, **fields: Any) -> GenerationRequest:
    token_ids, images = prompt_of(folder, *PROMPTS[name])
    stopping = StopParams(max_tokens=NUM_TOKENS, ignore_eos=True)
    return GenerationRequest(name, token_ids, SamplingParams(temperature=0), stopping, images=images, **fields)


@pytest.mark.parametrize("name", PROMPTS)
def test_answers_are_the_references(folder: Path, answers: dict[str, list[int]], name: str) -> None:
    """Each prompt alone has the same answer as in transformers."""
    assert Product(folder).answers(asked(folder, name)) == [answers[name]]


def test_an_image_decides_the_answer(answers: dict[str, list[int]]) -> None:
    """The answer depends on the image, so that the other tests here are meaningful."""
    assert len({tuple(answer) for answer in answers.values()}) == len(PROMPTS)


@pytest.mark.parametrize("chunk", [1, 5, 16, 40])
def test_a_mixed_batch_in_chunks_of_any_size_gives_the_same(
    folder: Path, answers: dict[str, list[int]], chunk: int
) -> None:
    """Prompts with and without images in one batch, chunked where their images allow it, give the same answers."""
    product = Product(folder, max_batch_tokens=max(chunk, 8), max_prefill_chunk=chunk, max_batch_sequences=6)
    assert product.answers(*(asked(folder, name) for name in PROMPTS)) == list(answers.values())


def test_a_step_has_the_rest_of_an_image_or_nothing_of_it(folder: Path) -> None:
    """An image's tokens attend to each other, so a step has all of its remaining tokens, whatever its limit."""
    product = Product(folder, max_batch_tokens=8, max_prefill_chunk=8, max_batch_sequences=2)
    request = asked(folder, "two images")
    group = group_of(request, max_model_len=MAX_POSITIONS)
    product.scheduler.add(group)
    ends = []
    while group.sequences[0].num_lacking:
        step = product.scheduler.schedule(0)
        assert step is not None
        product.scheduler.advance(group.sequences[0], step.items[0].num_new_tokens)
        ends.append(group.sequences[0].num_computed_tokens)
    first, second = request.images
    for image in (first, second):
        assert not any(image.start < end < image.end for end in ends)
        assert image.start in ends or image.end in ends
    assert max(b - a for a, b in zip([0, *ends], ends, strict=False)) == NUM_IMAGE_TOKENS


def test_the_same_image_is_found_in_the_cache_and_another_is_not(folder: Path, answers: dict[str, list[int]]) -> None:
    """Prompts of equal tokens share blocks up to the first different image."""
    product = Product(folder)
    stopping = StopParams(max_tokens=NUM_TOKENS, ignore_eos=True)
    found = {}
    for name, parts in {"first": (7, CAT, 4), "again": (7, CAT, 4), "other": (7, DOG, 4)}.items():
        token_ids, images = prompt_of(folder, *parts)
        request = GenerationRequest(name, token_ids, SamplingParams(temperature=0), stopping, images=images)
        found[name] = product.run(request)[0]
    cached = {name: outputs[0].num_cached_tokens for name, outputs in found.items()}
    before = 7 + 1  # the text's tokens and the begin token: two blocks of four
    assert cached == {"first": 0, "again": 28, "other": before}
    assert tokens_of(found["first"]) == tokens_of(found["again"]) != tokens_of(found["other"])
    assert product.answers(asked(folder, "image")) == [answers["image"]]


def test_a_prompt_goes_on_within_an_image_that_the_cache_has_the_beginning_of(
    folder: Path, answers: dict[str, list[int]]
) -> None:
    """If a cached block ends within an image, its remaining tokens still attend to the previous ones."""
    product = Product(folder, num_blocks=20)  # so few that the next prompt takes the last blocks of the previous one
    num_cached = []
    for name in ("two images", "text", "two images", "image", "two images"):
        (outputs,) = product.run(asked(folder, name))
        assert tokens_of(outputs) == answers[name]
        num_cached.append(outputs[0].num_cached_tokens)
    image = asked(folder, "two images").images[1]
    assert [image.start < number < image.end for number in num_cached] == [False, False, True, False, True]


def test_preempted_prompts_are_computed_again_with_their_images(folder: Path, answers: dict[str, list[int]]) -> None:
    """With too few blocks for all, some prompts are preempted and recomputed."""
    product = Product(folder, num_blocks=23, prefix_caching=False)
    names = ["two images", "image", "images side by side"]
    assert product.answers(*(asked(folder, name) for name in names)) == [answers[name] for name in names]
    assert product.scheduler.num_preemptions > 0


def test_choices_share_the_prompt_and_its_images(folder: Path, answers: dict[str, list[int]]) -> None:
    """Each choice of a greedy request is the reference's answer."""
    (outputs,) = Product(folder).run(asked(folder, "two images", n=3))
    assert [tokens_of(outputs, choice) for choice in range(3)] == [answers["two images"]] * 3


def test_logprobs_of_prompts_with_images_are_returned(folder: Path, answers: dict[str, list[int]]) -> None:
    """Each prompt token but the first, and each answer token, has a logprob, for every step size."""
    options = LogprobsOptions()
    outputs = [
        Product(folder, **sizes).run(asked(folder, "image", logprobs=options, prompt_logprobs=options))[0]
        for sizes in ({}, {"max_batch_tokens": 8, "max_prefill_chunk": 8, "max_batch_sequences": 2})
    ]
    whole, cut = ([each.logprob for each in answer[0].prompt_logprobs] for answer in outputs)
    assert len(whole) == len(prompt_of(folder, *PROMPTS["image"])[0]) - 1
    assert whole == pytest.approx(cut, abs=1e-4)
    assert tokens_of(outputs[0]) == tokens_of(outputs[1]) == answers["image"]
