"""A decoder with one attention call per layer and recorded steps gives the model's logits.

The kernels are doubles in plain operators, which test plan and layout; `cuda/test_kernels.py` tests the kernels.
"""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from service.engine.core.blocks.block_pool import BlockPool
from service.engine.core.engine_core import EngineCore
from service.engine.core.scheduler import Scheduler
from service.engine.interface.config import EngineConfig
from service.engine.models.attention.accelerator import Accelerator, make_cache
from service.engine.models.attention.decode_graphs import sizes
from service.engine.models.attention.kv_cache import CacheShape, KVCache
from service.engine.models.attention.page_cache import PageCache
from service.engine.models.checkpoint.adapter_files import read_adapter
from service.engine.models.torch.decoder import Decoder
from service.engine.models.torch.load_decoder import load_decoder
from service.engine.runner.model_runner import ModelRunner
from service.engine.sampler.torch_sampler import TorchSampler
from service.generation.requests.parameters import SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from tests.engine.accelerator_double import PlainKernels, RunAgain, accelerator
from tests.engine.driving import drive
from tests.engine.fakes import group_of
from tests.engine.folders.peft_adapters import save_adapter
from tests.engine.folders.tiny_models import (
    BLOCK_SIZE,
    MAX_POSITIONS,
    NUM_BLOCKS,
    Part,
    load,
    reference,
    run,
    save,
    spec,
    tokens,
)

CPU = torch.device("cpu")
SCATTERED = [31, 2, 17, 5, 30, 9]
LENGTH = 45
CONTEXTS = [3, 17, 40, 9, 24]  # of decodes


def paged(folder: Path, other: Accelerator | None = None) -> Decoder:
    """Return the folder's decoder with a paged cache."""
    source = spec(folder)
    decoder = load_decoder(
        source.config, source.checkpoint, torch.float32, CPU, MAX_POSITIONS, accelerator=other or accelerator()
    )
    decoder.allocate(NUM_BLOCKS, BLOCK_SIZE)
    return decoder


@pytest.fixture(scope="module", params=["llama-biases", "llama-one-kv-head", "llama3-rope", "qwen2-tied", "qwen3"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    return save(request.param, folder), folder


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    folder = tmp_path_factory.mktemp("qwen")
    return save("qwen2-tied", folder), folder


def assert_close(logits: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=0)


def decodes(decoder: Any, contexts: list[int], seed: int = 0) -> list[Part]:
    """Return a decode of each text after computing its prefix, in separate blocks."""
    parts, blocks = [], iter(range(NUM_BLOCKS - 1, -1, -1))
    for number, length in enumerate(contexts):
        ids = tokens(length, seed=seed + number)
        table = [next(blocks) for _ in range(-(-length // BLOCK_SIZE))]
        if length > 1:
            run(decoder, [Part(ids, 0, length - 1, table)])
        parts.append(Part(ids, length - 1, length, table))
    return parts


@pytest.mark.parametrize("cuts", [[LENGTH], [8, 20, 21, 22, LENGTH]])
def test_logits_equal_reference_however_a_text_is_cut(model: tuple[Any, Path], cuts: list[int]) -> None:
    ids, decoder = tokens(LENGTH, seed=1), paged(model[1])
    parts = [run(decoder, [Part(ids, start, end, SCATTERED)])[0] for start, end in pairwise([0, *cuts])]
    assert_close(torch.cat(parts), reference(model[0], ids))


def test_prefills_chunks_and_decodes_are_one_call_a_layer(qwen: tuple[Any, Path]) -> None:
    """A mixed batch gives the same logits as alone, with one call per layer."""
    kernels = PlainKernels()
    decoder = paged(qwen[1], accelerator(kernels=kernels))
    cases = [
        (tokens(30, seed=2), 29, [0, 1, 3, 4]),
        (tokens(9, seed=3), 0, [20, 21]),
        (tokens(40, seed=5), 13, SCATTERED),
    ]
    for ids, start, table in cases:
        if start:
            run(decoder, [Part(ids, 0, start, table)])
    kernels.num_rows.clear()
    batched = run(decoder, [Part(ids, start, len(ids), table) for ids, start, table in cases])
    assert kernels.num_rows == [1 + 9 + 27] * qwen[0].config.num_hidden_layers
    for (ids, start, _), logits in zip(cases, batched, strict=True):
        assert_close(logits, reference(qwen[0], ids)[start:])


def test_adapters_add_over_pages_what_they_add_elsewhere(qwen: tuple[Any, Path], tmp_path: Path) -> None:
    adapter = read_adapter(save_adapter(qwen[1], tmp_path), 64)
    ids, found = tokens(20), []
    for backend in (paged(qwen[1]), load(qwen[1])):
        backend.put_adapter(0, adapter)
        found.append(torch.cat(run(backend, [Part(ids, 0, 20, [2, 0, 1], adapter=0), Part(ids, 0, 20, [5, 4, 3])])))
    assert_close(found[0], found[1])


@pytest.mark.parametrize("reason", ["heads have 320 numbers, the limit is 256", None])
def test_shapes_that_the_kernels_do_not_support_get_the_other_cache(
    reason: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has the reason."""
    other = accelerator(kernels=PlainKernels(reason))
    cache = make_cache(other, CacheShape(1, 1, 8, 8, torch.float32), 2, 8, CPU)
    assert type(cache) is (PageCache if reason is None else KVCache)
    assert (reason or "") in caplog.text


def test_sizes_by_the_rule() -> None:
    assert sizes(1) == [1]
    assert sizes(6) == [1, 2, 4, 6]
    assert sizes(16) == [1, 2, 4, 8, 16]
    assert sizes(70) == [1, 2, 4, 8, 16, 32, 48, 64, 70]


@pytest.mark.parametrize("num_sequences", [1, 2, 3, 4])
def test_replays_give_what_was_computed_without_them(qwen: tuple[Any, Path], num_sequences: int) -> None:
    """Repeated replays, at an exact or padded size, give the same logits and store keys and values for later steps."""
    plain, recorded = paged(qwen[1]), paged(qwen[1])
    recorded.record_decodes()
    contexts = CONTEXTS[:num_sequences]
    for turn in range(3):
        expected = run(plain, decodes(plain, contexts, seed=turn))
        found = run(recorded, decodes(recorded, contexts, seed=turn))
        assert_close(torch.cat(found), torch.cat(expected))
    assert recorded.num_replays == 3
    ids = tokens(30, seed=50)
    run(recorded, [Part(ids, 0, 25, SCATTERED)])
    stepwise = [run(recorded, [Part(ids, start, start + 1, SCATTERED)])[0].clone() for start in range(25, 30)]
    assert recorded.num_replays == 3 + 5
    assert_close(torch.cat(stepwise), reference(qwen[0], ids)[25:])


def test_padding_rows_write_to_no_sequences_block(qwen: tuple[Any, Path]) -> None:
    """Three decodes replayed as four leave all other blocks as they were."""
    decoder = paged(qwen[1], accelerator(max_context=64))
    decoder.record_decodes()
    parts = decodes(decoder, CONTEXTS[:3])
    kept = tokens(LENGTH, seed=9)
    run(decoder, [Part(kept, 0, LENGTH - 1, list(range(6)))])
    run(decoder, parts)
    logits = run(decoder, [Part(kept, LENGTH - 1, LENGTH, list(range(6)))])[0]
    assert_close(logits, reference(qwen[0], kept)[-1:])


def test_replays_read_and_write_the_same_memory(qwen: tuple[Any, Path]) -> None:
    """A recording uses the addresses of its first run; another batch changes the contents at these addresses."""
    decoder = paged(qwen[1])
    decoder.record_decodes()
    first = run(decoder, decodes(decoder, CONTEXTS[:2], seed=1))
    copies = [logits.clone() for logits in first]
    second = run(decoder, decodes(decoder, CONTEXTS[:2], seed=7))
    assert [each.data_ptr() for each in first] == [each.data_ptr() for each in second]
    assert not torch.equal(copies[0], second[0])


def test_other_batches_are_computed_without_recordings(qwen: tuple[Any, Path], tmp_path: Path) -> None:
    """Prefills, mixed batches, sequences with adapters and batches above the largest size are not replayed."""
    decoder = paged(qwen[1])
    decoder.put_adapter(0, read_adapter(save_adapter(qwen[1], tmp_path), 64))
    decoder.record_decodes()
    ids = tokens(6, seed=3)
    run(decoder, [Part(ids, 0, 6, [0])])
    parts = decodes(decoder, CONTEXTS)  # recomputes the contexts
    before = decoder.num_replays
    run(decoder, [parts[0], Part(ids, 2, 6, [0])])
    run(decoder, [Part(ids, 5, 6, [0], adapter=0)])
    for part, logits in zip(parts, run(decoder, parts), strict=True):
        assert_close(logits, reference(qwen[0], part.token_ids)[-1:])
    assert decoder.num_replays == before


def test_recording_ends_at_its_limit_of_memory(qwen: tuple[Any, Path], caplog: pytest.LogCaptureFixture) -> None:
    """The largest come first, and smaller batches are filled up to them."""
    recorder = RunAgain(taken=400_000)
    decoder = paged(qwen[1], accelerator(max_sequences=20, recorder=recorder))
    decoder.record_decodes()
    assert recorder.num_recorded == 3  # 20, 16 and 8 sequences; the third exceeded the limit of a million
    assert "no more decode graphs are captured: 3 of 6 sizes took 1 MB, the limit is 1 MB" in caplog.text
    parts = decodes(decoder, CONTEXTS)
    before = decoder.num_replays
    for part, logits in zip(parts, run(decoder, parts), strict=True):
        assert_close(logits, reference(qwen[0], part.token_ids)[-1:])
    assert decoder.num_replays == before + 1


def test_without_pages_nothing_is_recorded(qwen: tuple[Any, Path]) -> None:
    decoder = paged(qwen[1], accelerator(kernels=PlainKernels("heads have 320 numbers")))
    decoder.record_decodes()
    ids = tokens(LENGTH)
    assert_close(run(decoder, [Part(ids, 0, LENGTH, SCATTERED)])[0], reference(qwen[0], ids))
    assert decoder.num_replays == 0


def test_replays_are_counted_in_the_engines_numbers(qwen: tuple[Any, Path]) -> None:
    """A prompt of one step and four decodes count four replays."""
    source = spec(qwen[1])
    decoder = load_decoder(
        source.config, source.checkpoint, torch.float32, CPU, MAX_POSITIONS, accelerator=accelerator()
    )
    config = EngineConfig(block_size=4, num_blocks=16, max_model_len=MAX_POSITIONS, max_queue_wait_s=math.inf)
    core = EngineCore(Scheduler(config, BlockPool(16, 4)), ModelRunner(decoder, TorchSampler(), 16, 4))
    request = GenerationRequest("r", [5, 6, 7], SamplingParams(temperature=0), StopParams(max_tokens=5))
    outputs, errors = drive(core, [group_of(request, max_model_len=MAX_POSITIONS)])
    assert not errors
    assert sum(len(output.token_ids) for output in outputs[0]) == 5
    stats = core.stats()
    assert (stats.num_steps, stats.num_replays) == (5, 4)
