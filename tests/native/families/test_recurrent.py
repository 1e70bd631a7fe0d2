"""Recurrent layers of the native step: the slots of states, and the sizes that follow from plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sluice_native
from numpy.typing import NDArray

from service.engine.models.plans.families.table import RECURRENT, plan_of
from service.engine.models.plans.sizes import cache_bytes_per_token, state_bytes
from tests.models.families import model_of, some_tokens
from tests.native.decoders import ints, native

KINDS = ("falcon_h1", "jamba", "lfm2", "minimax", "qwen3_5_text")  # a family for each kind of recurrent layer
LENGTH = 40


def run(model: Any, start: int, count: int, states: list[int]) -> NDArray[np.float32]:
    """Compute `count` tokens of a sequence from position `start` on.

    `states` is the slot of the state to start from, the slot of the state before the last tokens, the number of these
    last tokens, and the slot of the state after them (-1 for none).
    """
    token_ids = some_tokens(0, LENGTH)[start : start + count]
    logits: NDArray[np.float32] = model.step(
        ints(token_ids),
        np.arange(start, start + count, dtype=np.int32),
        ints([0, count]),
        ints([start + count]),
        ints([[0, 1, 2]]),
        np.arange(count, dtype=np.int32),
        states=ints([states]),
    )
    return logits


def made(kind: str, weight_type: str = "float32") -> Any:
    model = native(model_of(kind), weight_type)
    model.allocate(3, 16)
    return model


@pytest.mark.parametrize("weight_type", ["bfloat16", "int8"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_keeps_the_state_before_its_last_tokens(kind: str, weight_type: str) -> None:
    """A sequence continues from either slot with the bits that it has without slots."""
    model = made(kind, weight_type)
    expected = run(model, 0, LENGTH, [0, 0, 0, -1])
    for first, last in ((1, 1), (9, 4), (16, 16)):
        parts = [run(model, 0, first + last, [0, 3, last, 5]), run(model, first + last, 7, [5, 5, 0, -1])]
        assert np.concatenate(parts).tobytes() == expected[: first + last + 7].tobytes()
        again = run(model, first, 9, [3, 7, 0, -1])
        assert again.tobytes() == expected[first : first + 9].tobytes()
        assert run(model, first, 9, [3, 3, 9, 2]).tobytes() == again.tobytes()
        assert run(model, first, 9, [3, 6, 2, 2]).tobytes() == again.tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_sequence_ignores_the_former_content_of_its_slot(kind: str) -> None:
    model = made(kind)
    expected = run(model, 0, LENGTH, [4, 4, 0, -1])
    run(model, 0, 11, [1, 1, 0, -1])
    assert run(model, 0, LENGTH, [4, 1, 3, 4]).tobytes() == expected.tobytes()


@pytest.mark.parametrize("kind", sorted(RECURRENT))
def test_plan_and_model_agree_on_the_bytes_of_states_and_tokens(kind: str) -> None:
    model, plan = made(kind), plan_of(model_of(kind).config)
    assert state_bytes(plan) == model.bytes_per_state > 0
    assert cache_bytes_per_token(plan, "float32") == sum(model.bytes_per_slot)


@pytest.mark.parametrize(
    ("states", "text"),
    [
        ([[20, 0, 0, -1]], None),
        ([[0, 20, 0, -1]], r"states\[1\] is 20; there are the slots 0 to 19"),
        ([[0, -1, 0, -1]], r"states\[1\] is -1; there are the slots"),
        ([[0, 0, 3, 1]], r"states\[2\] is 3; it must be 0 to 2"),
        ([[0, 0, -1, 1]], r"states\[2\] is -1; it must be 0 to 2"),
        ([[0, 0, 1, 0]], r"states\[3\] is 0; a slot that is written can't be used twice"),
        ([[0, 0, 1, 20]], r"states\[3\] is 20; there are the slots"),
        ([[0, 0, 0]], "states must have four numbers for each of the 1 sequences"),
        (None, "states must be given"),
    ],
)
def test_slots_are_checked(states: list[list[int]] | None, text: str | None) -> None:
    """A sequence that starts reads no state, so its source may be anything."""
    model = made("lfm2")
    given = None if states is None else ints(states)

    def step() -> None:
        model.step(ints([1, 2, 3]), ints([0, 1, 2]), ints([0, 3]), ints([3]), ints([[0]]), ints([2]), states=given)

    if text is None:
        step()
    else:
        with pytest.raises(ValueError, match=text):
            step()


def test_two_sequences_may_start_from_one_state() -> None:
    """A slot that is only read can be used several times, and a slot that is written cannot."""
    model = made("lfm2")
    run(model, 0, 10, [0, 0, 0, -1])
    token_ids, tables = some_tokens(0, LENGTH)[10:12], ints([[0, 1], [2, 1]])

    def step(states: list[list[int]]) -> NDArray[np.float32]:
        logits: NDArray[np.float32] = model.step(
            ints(token_ids), ints([10, 10]), ints([0, 1, 2]), ints([11, 11]), tables, ints([0, 1]), states=ints(states)
        )
        return logits

    step([[0, 1, 0, -1], [0, 2, 0, -1]])
    for states in ([[0, 1, 0, -1], [0, 1, 0, -1]], [[0, 0, 0, -1], [0, 2, 0, -1]], [[0, 1, 1, 2], [2, 3, 0, -1]]):
        with pytest.raises(ValueError, match="a slot that is written can't be used twice"):
            step(states)


@pytest.mark.parametrize(
    ("kind", "field", "value", "text"),
    [
        ("mamba", "step_rank", 0, "step_rank must be at least 1 for mamba"),
        ("mamba", "num_heads", 2, "num_heads must be 1 for mamba"),
        ("lfm2", "step_rank", 4, "step_rank must be at least 1 for mamba, and 0 for others"),
        ("lfm2", "has_parameter_norms", True, "has_parameter_norms must be false except for mamba"),
    ],
)
def test_invalid_recurrent_part_is_rejected(kind: str, field: str, value: Any, text: str) -> None:
    plan = plan_of(model_of(kind).config).to_native()
    plan["layers"][0]["recurrent"][field] = value
    with pytest.raises(ValueError, match=text):
        sluice_native.Model(plan)
