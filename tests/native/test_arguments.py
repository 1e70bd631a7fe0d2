"""Arguments are checked before they are used; the text of a ValueError begins with the argument's name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sluice_native
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.native.decoders import CONFIGS, native, reference, shape_of

VOCABULARY, NUM_BLOCKS = 203, 4


@pytest.fixture(scope="module")
def model() -> sluice_native.Model:
    made = native(reference(CONFIGS["qwen3"]))
    made.allocate(NUM_BLOCKS, 16)
    return made


def good() -> dict[str, Any]:
    """Return a decode with a context of 20 tokens and a prefill of three tokens."""
    return {
        "token_ids": ints(1, 2, 3, 4),
        "positions": ints(19, 0, 1, 2),
        "row_offsets": ints(0, 1, 4),
        "context_lengths": ints(20, 3),
        "block_tables": ints([3, 1], [0, -1]),
        "output_rows": ints(0, 3),
    }


def ints(*values: Any) -> Any:
    return np.array(values, dtype=np.int32)


def test_a_good_batch_runs(model: sluice_native.Model) -> None:
    assert model.step(**good()).shape == (2, VOCABULARY)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("token_ids", ints(1, 2, 3, VOCABULARY), r"token_ids\[3\] is 203; the vocabulary has the ids 0 to 202"),
        ("token_ids", ints(1, -2, 3, 4), r"token_ids\[1\] is -2"),
        ("token_ids", ints(), "positions must have 0 elements"),
        ("token_ids", np.array([1, 2, 3, 4]), "token_ids must be int32"),
        ("token_ids", ints([1, 2, 3, 4]), "token_ids must have 1 dimension"),
        ("token_ids", ints(1, 0, 2, 0, 3, 0, 4, 0)[::2], "token_ids must be contiguous"),
        ("positions", ints(19, 0, 1), "positions must have 4 elements, not 3"),
        ("positions", ints(19, 0, -1, 2), r"positions\[2\] is -1"),
        ("row_offsets", ints(0, 4), "row_offsets must have 3 elements"),
        ("row_offsets", ints(1, 2, 4), r"row_offsets\[0\] is 1; it must be 0"),
        ("row_offsets", ints(0, 0, 4), r"row_offsets\[1\] is 0; each sequence needs at least one token"),
        ("row_offsets", ints(0, 5, 4), r"row_offsets\[2\] is 4; each sequence needs at least one token"),
        ("row_offsets", ints(0, 1, 3), r"row_offsets\[2\] is 3; it must be the number of tokens, 4"),
        ("context_lengths", ints(20, 2), r"context_lengths\[1\] is 2; .* at least the sequence's new tokens, 3"),
        ("context_lengths", ints(33, 3), r"context_lengths\[0\] is 33; .* at most what its block table holds, 32"),
        ("block_tables", ints([3, 4], [0, -1]), r"block_tables\[1\] is 4; the cache has the blocks 0 to 3"),
        ("block_tables", ints([3, 1], [-1, -1]), r"block_tables\[2\] is -1"),
        ("block_tables", ints([3, 1]), "block_tables must have a row for each of the 2 sequences"),
        ("output_rows", ints(0, 4), r"output_rows\[1\] is 4; the batch has the tokens 0 to 3"),
        ("logits", np.zeros((3, VOCABULARY), dtype=np.float32), r"logits must have the shape \[2, 203\]"),
        ("logits", np.zeros((2, VOCABULARY)), "logits must be float32"),
        ("num_threads", -1, "num_threads must be 0 to 1024"),
    ],
)
def test_a_bad_batch_is_refused(model: sluice_native.Model, name: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.step(**good() | {name: value})


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(sorted(good())),
    index=st.integers(0, 100),
    value=st.one_of(st.integers(-3, 300), st.integers(-(2**31), 2**31 - 1)),
)
def test_any_number_anywhere_is_computed_or_refused_by_name(
    model: sluice_native.Model, name: str, index: int, value: int
) -> None:
    batch = good()
    flat = batch[name].reshape(-1)
    flat[index % len(flat)] = value
    try:
        model.step(**batch)
    except ValueError as error:
        assert str(error).split("[", maxsplit=1)[0] in batch  # noqa: PT017  most of these batches are rejected


def test_logits_are_written_to_the_given_array(model: sluice_native.Model) -> None:
    logits = np.full((2, VOCABULARY), np.nan, dtype=np.float32)
    model.step(**good(), logits=logits)
    assert logits.tobytes() == model.step(**good()).tobytes()


def test_a_step_without_output_rows_has_no_logits(model: sluice_native.Model) -> None:
    assert model.step(**good() | {"output_rows": ints()}).shape == (0, VOCABULARY)


def test_a_step_needs_all_tensors_and_a_cache() -> None:
    whole = native(reference(CONFIGS["qwen3"]))
    with pytest.raises(RuntimeError, match="allocate"):
        whole.step(**good())
    empty = sluice_native.Model(**shape_of(CONFIGS["qwen3"]))
    assert empty.missing() == list(empty.tensors())
    empty.allocate(NUM_BLOCKS, 16)
    with pytest.raises(RuntimeError, match=r"model\.embed_tokens\.weight"):
        empty.step(**good())


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("model.norm.weight", (3,), r"tensor: model\.norm\.weight must have the shape \[64\]"),
        ("model.layers.3.mlp.up_proj.weight", (104, 64), "name: the model has no tensor model.layers.3"),
        ("model.layers.0.mlp.up_proj.bias", (104,), "name: the model has no tensor"),
        ("model.layers.-1.mlp.up_proj.weight", (104, 64), "name: the model has no tensor"),
        ("lm_head.weight", (203, 64), "name: the model has no tensor lm_head.weight"),
    ],
)
def test_a_tensor_that_does_not_belong_is_refused(
    model: sluice_native.Model, name: str, shape: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        model.load(name, np.zeros(shape, dtype=np.float32))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_kv_heads", 3),
        ("hidden_size", 0),
        ("inverse_frequencies", [1.0] * 25),
        ("weight_type", "float8"),
        ("cache_type", "int8"),
        ("windows", [0]),
        ("has_rope", [True]),
        ("instruction_set", "mmx"),
        ("num_threads", 0),
    ],
)
def test_a_shape_that_can_not_be_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        sluice_native.Model(**shape_of(CONFIGS["qwen3"]) | {name: value})


@pytest.mark.parametrize(("num_blocks", "block_size"), [(0, 16), (4, 0), (4, 24)])
def test_a_cache_that_can_not_be_is_refused(num_blocks: int, block_size: int) -> None:
    with pytest.raises(ValueError, match=r"num_blocks|block_size"):
        native(reference(CONFIGS["qwen3"])).allocate(num_blocks, block_size)
