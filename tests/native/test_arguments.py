"""Arguments are checked before they are used; the text of a ValueError begins with the argument's name."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
import pytest
import sluice_native
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.native.decoders import CONFIGS, native, native_plan, reference

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
@settings(max_examples=150)
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
    empty = sluice_native.Model(native_plan(CONFIGS["qwen3"]))
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
    [("weight_type", "float8"), ("cache_type", "int4"), ("instruction_set", "mmx"), ("num_threads", 0)],
)
def test_invalid_option_is_rejected(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        sluice_native.Model(native_plan(CONFIGS["qwen3"]), **{name: value})


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("hidden_size", 0, "hidden_size must be 1 to 1048576"),
        ("hidden_size", True, "hidden_size must be a number"),
        ("norm_epsilon", float("nan"), "norm_epsilon must be 0 to"),
        ("norm_kind", "batch", "norm_kind must be one of rms, layer"),
        ("has_norm_bias", True, "has_norm_bias must be false with norm_kind rms"),
        ("layers", [], "layers must have 1 to 4096 elements"),
        ("layers", 3, "layers must be a list"),
        ("layers.1", 3, r"layers\[1\] must be a dictionary"),
        ("layers.1.attention", 3, r"layers\[1\]\.attention must be a dictionary"),
        ("layers.1.attention.num_kv_heads", 3, r"layers\[1\]\.attention\.num_kv_heads must divide num_heads"),
        ("layers.1.attention.num_heads", 2**40, r"layers\[1\]\.attention\.num_heads must be 1 to 4096"),
        ("layers.1.attention.rotary", 1, r"layers\[1\]\.attention\.rotary must be below the number of tables, 1"),
        ("layers.1.attention.window", -1, r"layers\[1\]\.attention\.window must be 0 to"),
        ("layers.1.attention.has_sinks", 1, r"layers\[1\]\.attention\.has_sinks must be true or false"),
        ("layers.1.attention.has_head_norm_bias", True, r"layers\[1\]\.attention\.has_head_norm_bias must be false"),
        ("layers.1.attention.colour", "red", r"layers\[1\]\.attention has an unknown field"),
        ("layers.1.feed_forward.width", None, r"layers\[1\]\.feed_forward\.width must be a number"),
        ("layers.1.feed_forward.activation", "sin", r"layers\[1\]\.feed_forward\.activation must be one of silu"),
        (
            "rotary.0.inverse_frequencies",
            [1.0] * 25,
            r"rotary\[0\]\.inverse_frequencies must have at most head_dim / 2",
        ),
        ("rotary.0.inverse_frequencies", "1", r"rotary\[0\]\.inverse_frequencies must be a list of numbers"),
        ("rotary.0.factor", "2", r"rotary\[0\]\.factor must be a number"),
    ],
)
def test_invalid_plan_is_rejected(path: str, value: Any, message: str) -> None:
    plan = native_plan(CONFIGS["qwen3"])
    set_at(plan, path, value)
    with pytest.raises(ValueError, match=message):
        sluice_native.Model(plan)


def test_a_layer_with_output_norms_is_not_parallel() -> None:
    plan = native_plan(CONFIGS["qwen3"])
    plan["layers"][0].update(is_parallel=True, has_mlp_output_norm=True)
    with pytest.raises(ValueError, match=r"layers\[0\]\.is_parallel must be false"):
        sluice_native.Model(plan)


def test_missing_field_is_named() -> None:
    plan = native_plan(CONFIGS["qwen3"])
    del plan["layers"][2]["attention"]["scale"]
    with pytest.raises(ValueError, match=r"layers\[2\]\.attention\.scale is missing"):
        sluice_native.Model(plan)


def set_at(plan: dict[str, Any], path: str, value: Any) -> None:
    """Set the field of a nested plan whose path is given."""
    *parents, last = path.split(".")
    at: Any = plan
    for name in parents:
        if isinstance(at[int(name) if name.isdigit() else name], tuple):
            at[name] = list(at[name])
        at = at[int(name) if name.isdigit() else name]
    at[int(last) if last.isdigit() else last] = value


@pytest.mark.parametrize(("num_blocks", "block_size"), [(0, 16), (4, 0), (4, 24)])
def test_invalid_cache_size_is_rejected(num_blocks: int, block_size: int) -> None:
    with pytest.raises(ValueError, match=r"num_blocks|block_size"):
        native(reference(CONFIGS["qwen3"])).allocate(num_blocks, block_size)


def test_a_cache_in_a_file_needs_its_size_and_a_page() -> None:
    """A file that is too short or not open, and an offset within a page, are rejected before anything is mapped."""
    made = native(reference(CONFIGS["qwen3"]))
    with open(os.memfd_create("test"), "w+b") as file:  # noqa: PTH123  it has no path
        number = file.fileno()
        with pytest.raises(ValueError, match=r"^file must have at least"):
            made.allocate(NUM_BLOCKS, 16, file=number)
        os.ftruncate(number, 1 << 22)
        with pytest.raises(ValueError, match=r"^offset"):
            made.allocate(NUM_BLOCKS, 16, file=number, offset=16)
        made.allocate(NUM_BLOCKS, 16, file=number, offset=4096)
        made.cache_rows()[1, :3] = 7
        assert os.pread(number, 3, 4096 + made.cache_rows().shape[1]) == b"\7\7\7"
    with pytest.raises(ValueError, match=r"^file must be an open file"):
        made.allocate(NUM_BLOCKS, 16, file=number)


def test_a_step_ends_early_if_a_request_has_arrived(model: sluice_native.Model) -> None:
    """The step returns nothing while more requests were sent than received; repeated, it has the same logits."""
    expected = model.step(**good())
    assert model.step(**good(), arrivals=ints(3, 2)) is None
    again = model.step(**good(), arrivals=ints(3, 3))
    assert again is not None
    assert again.tobytes() == expected.tobytes()
    with pytest.raises(ValueError, match="arrivals must have 2 elements"):
        model.step(**good(), arrivals=ints(1))


def test_a_running_step_ends_when_a_request_arrives(model: sluice_native.Model) -> None:
    """Threads of any number agree on the layer before which a step ends, at any instant of the arrival."""
    expected = model.step(**good()).tobytes()
    arrivals, is_over = ints(0, 0), threading.Event()

    def arrive() -> None:
        while not is_over.is_set():
            arrivals[0] = 1 - arrivals[0]

    other = threading.Thread(target=arrive)
    other.start()
    try:
        for index in range(200):
            found = model.step(**good(), num_threads=1 + index % 4, arrivals=arrivals)
            assert found is None or found.tobytes() == expected
    finally:
        is_over.set()
        other.join()
