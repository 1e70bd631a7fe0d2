"""A backend's logits are transformers', for every chunking, batch and block table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from service.engine.models.interface.backend import Backend
from service.engine.models.interface.model_spec import AUTO
from service.engine.models.torch.supported import decoder_unsupported_reason
from tests.engine.folders.tiny_models import (
    CONFIGS,
    LEAN,
    MODULES,
    PLANNED,
    Part,
    load,
    reference,
    reload,
    run,
    save,
    tokens,
)

# Contiguous and scattered blocks, as a block pool returns them when idle and when busy.
TABLES = {"run": list(range(10, 16)), "scattered": [31, 2, 17, 5, 30, 9]}
LENGTH = 45


@pytest.fixture(scope="module", params=CONFIGS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    return save(request.param, folder), folder


@pytest.fixture
def backend(request: pytest.FixtureRequest, model: tuple[Any, Path]) -> Backend[Tensor]:
    """The backend that serves the model by default, or transformers' modules for those of `PLANNED`."""
    name = request.node.callspec.params["model"]
    return load(model[1], backend="transformers" if name in PLANNED else AUTO)


def assert_close(logits: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_logits_equal_reference(model: tuple[Any, Path], backend: Backend[Tensor], table: list[int]) -> None:
    """A whole prompt gives the reference's logits at every position, for any block table."""
    ids = tokens(LENGTH)
    assert_close(run(backend, [Part(ids, 0, LENGTH, table)])[0], reference(model[0], ids))


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("cuts", [[20, 21, 22, LENGTH], [8, 16, LENGTH], list(range(1, LENGTH + 1))])
def test_logits_chunked_equal_whole(
    model: tuple[Any, Path], backend: Backend[Tensor], table: list[int], cuts: list[int]
) -> None:
    """Chunks of any length, including single tokens, give the logits of the whole prompt."""
    ids = tokens(LENGTH, seed=1)
    starts = [0, *cuts[:-1]]
    parts = [run(backend, [Part(ids, start, end, table)])[0] for start, end in zip(starts, cuts, strict=True)]
    assert_close(torch.cat(parts), reference(model[0], ids))


def test_logits_batched_equal_alone(model: tuple[Any, Path], backend: Backend[Tensor]) -> None:
    """Prefills, chunks and decodes of different lengths in one batch give the same logits as alone."""
    cases = [
        (tokens(30, seed=2), 29, list(range(4))),  # decodes of unequal contexts
        (tokens(9, seed=3), 0, [20, 21]),  # a prefill between them
        (tokens(7, seed=4), 6, [22]),
        (tokens(40, seed=5), 13, [39, 24, 38, 25, 37]),  # a chunk, scattered
        (tokens(41, seed=6), 40, [27, 36, 28, 35, 29, 34]),  # a decode, scattered
        (tokens(1, seed=7), 0, [30]),  # a prompt of one token
    ]
    for ids, start, table in cases:
        if start:
            run(backend, [Part(ids, 0, start, table)])
    batched = run(backend, [Part(ids, start, len(ids), table) for ids, start, table in cases])
    for (ids, start, _), logits in zip(cases, batched, strict=True):
        assert_close(logits, reference(model[0], ids)[start:])


def test_logits_ignore_what_others_left_in_a_block(model: tuple[Any, Path], backend: Backend[Tensor]) -> None:
    """A block that another sequence filled before gives the same logits as a fresh one."""
    old, ids = tokens(LENGTH, seed=10), tokens(5, seed=11)
    run(backend, [Part(old, 0, LENGTH, TABLES["run"])])
    run(backend, [Part(ids, 0, 3, TABLES["run"][1:2]), Part(old, 0, 3, TABLES["run"][3:4])])
    logits = run(backend, [Part(ids, 3, 4, TABLES["run"][1:2]), Part(old, 3, 4, TABLES["run"][3:4])])
    assert_close(logits[0], reference(model[0], ids[:4])[-1:])


@pytest.mark.parametrize("name", ["llama3-rope", "qwen2-tied", "qwen3", "gpt2", "mistral-window"])
def test_logits_in_bfloat16_are_as_good_as_the_references(name: str, tmp_path: Path) -> None:
    """In bfloat16 the error against float32 is at most twice that of transformers' own bfloat16, mean and largest."""
    save(name, tmp_path, torch.bfloat16)
    ids = tokens(LENGTH)
    theirs = reference(reload(tmp_path, torch.bfloat16), ids)
    exact = reference(reload(tmp_path, torch.float32), ids)
    backend = load(tmp_path, torch.bfloat16)
    chunks = [(0, 20), (20, 21), (21, LENGTH)]
    ours = torch.cat([run(backend, [Part(ids, start, end, TABLES["run"])])[0] for start, end in chunks])
    our_error, their_error = (ours - exact).abs(), (theirs - exact).abs()
    assert our_error.mean() <= 2 * their_error.mean()
    assert our_error.max() <= 2 * their_error.max()
    assert their_error.max() > 1e-3  # otherwise the bound would be meaningless


@pytest.mark.parametrize("name", ["llama-tied", "qwen3", "gpt2"])
def test_widened_bfloat16_weights_are_exact(name: str, tmp_path: Path) -> None:
    """Weights stored in bfloat16 and computed in float32 give the float32 model's logits."""
    save(name, tmp_path, torch.bfloat16)
    ids = tokens(LENGTH)
    logits = run(load(tmp_path), [Part(ids, 0, LENGTH, TABLES["run"])])[0]
    assert_close(logits, reference(reload(tmp_path, torch.float32), ids))


def test_torch_decoder_serves_models_with_a_plan() -> None:
    """The torch decoder computes all models that have a layer plan, and no others."""
    planned = LEAN | PLANNED
    assert {name: decoder_unsupported_reason(make()) for name, make in planned.items()} == dict.fromkeys(planned)
    assert all(decoder_unsupported_reason(make()) for make in MODULES.values())
