"""A runner that computes decodes ahead gives the tokens of one that does not, in fewer waits."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from service.engine.core.blocks.block_pool import BlockPool
from service.engine.core.drafts.prompt_drafter import PromptDrafter
from service.engine.core.drafts.speculation import Speculation
from service.engine.core.engine_core import EngineCore
from service.engine.core.scheduler import Scheduler
from service.engine.core.sequences.sequence import SequenceGroup
from service.engine.interface.config import EngineConfig
from service.engine.models.torch.decoder import Decoder
from service.engine.models.torch.load_decoder import load_decoder
from service.engine.runner.ahead_runner import AheadRunner
from service.engine.runner.model_runner import ModelRunner
from service.engine.sampler.torch_sampler import TorchSampler
from service.generation.outputs.output import FinishReason, GenerationOutput
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from tests.engine.accelerator_double import accelerator
from tests.engine.driving import drive
from tests.engine.fake_constraint import FakeConstraint
from tests.engine.fakes import group_of
from tests.engine.folders.tiny_models import MAX_POSITIONS, save, spec, tokens

BLOCK_SIZE = 4
NUM_BLOCKS = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("qwen")
    save("qwen2-tied", made)
    return made


class Alternating(FakeConstraint):
    """Allows tokens of another remainder after each token, and replaces every third one."""

    def __init__(self) -> None:
        self._num_accepted = 0

    def fill_mask(self, mask: Any) -> None:
        bits = np.zeros(32 * len(mask), dtype=np.uint8)
        bits[self._num_accepted % 3 :: 3] = 1
        mask[:] = np.packbits(bits, bitorder="little").view(np.int32)

    def accept(self, token_id: int) -> None:
        assert token_id % 3 == self._num_accepted % 3
        self._num_accepted += 1

    def replace_token(self, token_id: int, num_left: int) -> int:
        assert num_left > 0
        return (token_id + 3) % 60 if self._num_accepted % 3 == 2 else token_id

    def fork(self) -> Alternating:
        return Alternating()


def decoder_of(folder: Path, *, records: bool = True) -> Decoder:
    source = spec(folder)
    device = accelerator(max_sequences=8)
    decoder = load_decoder(
        source.config, source.checkpoint, torch.float32, torch.device("cpu"), MAX_POSITIONS, accelerator=device
    )
    if not records:
        decoder.record_decodes = lambda: None  # type: ignore[method-assign]
    return decoder


class Counted:
    """Counts the forward passes of a decoder, and those that continue tokens on the device."""

    def __init__(self, decoder: Decoder) -> None:
        self.num_ahead = self.num_others = 0
        self._ahead, self._other = decoder.forward_following, decoder.forward
        decoder.forward_following = self.following  # type: ignore[method-assign,assignment]
        decoder.forward = self.other  # type: ignore[method-assign,assignment]

    def following(self, *arguments: Any) -> Any:
        self.num_ahead += 1
        return self._ahead(*arguments)

    def other(self, *arguments: Any) -> Any:
        self.num_others += 1
        return self._other(*arguments)


def core_of(
    decoder: Decoder,
    runner: type[ModelRunner[Any]],
    *,
    num_blocks: int = NUM_BLOCKS,
    slots: int = 8,
    drafts: bool = False,
) -> EngineCore:
    config = EngineConfig(
        block_size=BLOCK_SIZE,
        num_blocks=num_blocks,
        max_model_len=MAX_POSITIONS,
        max_queue_wait_s=math.inf,
        max_batch_sequences=slots,
        max_batch_tokens=24,
    )
    speculation = Speculation(PromptDrafter()) if drafts else None
    scheduler = Scheduler(config, BlockPool(num_blocks, BLOCK_SIZE), speculation)
    scheduler.lookahead.is_on = runner is AheadRunner
    return EngineCore(scheduler, runner(decoder, TorchSampler(), num_blocks, BLOCK_SIZE))


def random_groups(rng: random.Random, number: int) -> list[SequenceGroup]:
    """Return requests of all kinds, which start in a fixed order."""
    groups = []
    for serial in range(number):
        sampling = rng.choice(
            [
                SamplingParams(temperature=0),
                SamplingParams(temperature=1.5, top_p=0.9),
                SamplingParams(temperature=1, repetition_penalty=1.3, frequency_penalty=0.5),
            ]
        )
        request = GenerationRequest(
            str(serial),
            tokens(rng.randint(1, 20), seed=rng.randint(0, 99)),
            sampling,
            StopParams(
                max_tokens=rng.randint(1, 14),
                stop_token_ids=tuple(rng.sample(range(64), 8)) if rng.random() < 0.5 else (),
                ignore_eos=True,
            ),
            n=rng.choice([1, 1, 1, 2]),
            logprobs=LogprobsOptions(2) if rng.random() < 0.4 else None,
        )
        constraint = Alternating() if rng.random() < 0.2 else None
        groups.append(group_of(request, serial=serial, max_model_len=MAX_POSITIONS, constraint=constraint))
    return groups


def texts(outputs: list[list[GenerationOutput]]) -> list[Any]:
    """Return what each choice of a request got: its tokens, their logprobs, and its end."""
    found = []
    for of_group in outputs:
        choices: dict[int, list[Any]] = {}
        for output in of_group:
            parts = choices.setdefault(output.choice_index, [[], [], None])
            parts[0] += output.token_ids
            parts[1] += [pytest.approx(each.logprob, abs=1e-4) for each in output.logprobs]
            parts[2] = output.finish_reason or parts[2]
        found.append(choices)
    return found


@pytest.mark.parametrize("records", [True, False])
def test_one_request_is_computed_ahead_to_its_end(folder: Path, records: bool) -> None:  # noqa: FBT001
    """All decodes are queued before the tokens that they continue are read, and none is computed twice."""
    decoder = decoder_of(folder, records=records)
    counted = Counted(decoder)
    core = core_of(decoder, AheadRunner)
    request = GenerationRequest("r", tokens(9), SamplingParams(temperature=0), StopParams(max_tokens=12))
    outputs, errors = drive(core, [group_of(request, max_model_len=MAX_POSITIONS)])
    assert not errors
    assert (counted.num_others, counted.num_ahead) == (1, 11)
    assert core.stats().num_steps == 12
    plain = core_of(decoder_of(folder), ModelRunner)
    expected, _ = drive(plain, [group_of(request, max_model_len=MAX_POSITIONS)])
    assert texts(outputs) == texts(expected)
    assert texts(outputs)[0][0][2] is FinishReason.LENGTH


@pytest.mark.parametrize("seed", range(12))
def test_answers_are_those_without_looking_ahead(folder: Path, seed: int) -> None:
    """Random requests arrive at random steps, are aborted, end early, and lose their blocks to others."""

    def answers(runner: type[ModelRunner[Any]]) -> tuple[list[Any], Counted]:
        rng = random.Random(seed)
        decoder = decoder_of(folder, records=seed % 2 == 0)
        counted = Counted(decoder)
        core = core_of(
            decoder, runner, num_blocks=rng.choice([14, 20, 40]), slots=rng.choice([3, 8]), drafts=seed % 3 == 0
        )
        groups = random_groups(rng, 12)
        aborted = {group.serial for group in groups if rng.random() < 0.15}
        outputs: dict[int, list[GenerationOutput]] = {group.serial: [] for group in groups}
        waiting, running = groups[::-1], []
        while waiting or core.has_work:
            while waiting and (not core.has_work or rng.random() < 0.3):
                running.append(waiting.pop())
                core.add(running[-1])
            core.step()
            report = core.report()
            assert not report.errors
            for serial, output in report.outputs:
                assert isinstance(output, GenerationOutput)
                outputs[serial].append(output)
                if serial in aborted:
                    core.abort(serial)
            core.check()
        kept = [of for serial, of in outputs.items() if serial not in aborted]
        return texts(kept), counted

    expected, _ = answers(ModelRunner)
    found, counted = answers(AheadRunner)
    assert found == expected
    assert counted.num_ahead > 0


def test_a_waiting_prompt_joins_the_decodes(folder: Path) -> None:
    """While a prompt waits for a place that is about to be free, the next step is not computed without it."""
    decoder = decoder_of(folder)
    counted = Counted(decoder)
    core = core_of(decoder, AheadRunner, slots=2)
    for serial, length in enumerate([4, 9, 6]):
        request = GenerationRequest(
            str(serial), tokens(3, seed=serial), SamplingParams(temperature=0), StopParams(max_tokens=length)
        )
        core.add(group_of(request, serial=serial, max_model_len=MAX_POSITIONS))
    while core.has_work:
        core.step()
    # Prompts of two, and the third's with the other's decode; the rest is decoded ahead.
    assert (counted.num_others, counted.num_ahead, core.stats().num_steps) == (2, 8, 10)


def test_it_looks_ahead_only_on_devices(folder: Path) -> None:
    source = spec(folder)
    on_cpu = load_decoder(source.config, source.checkpoint, torch.float32, torch.device("cpu"), MAX_POSITIONS)
    assert not AheadRunner(on_cpu, TorchSampler(), 8, BLOCK_SIZE).computes_ahead
    assert AheadRunner(decoder_of(folder), TorchSampler(), 8, BLOCK_SIZE).computes_ahead
