"""EngineConfig: its valid values, and the field names in the errors for invalid ones."""

from __future__ import annotations

from typing import Any

import pytest

from service.engine.interface.config import EngineConfig


def test_config_defaults_are_valid() -> None:
    """Every size has a valid default."""
    assert EngineConfig() == EngineConfig(max_batch_tokens=2048, max_batch_sequences=64, device_memory=0.9)
    assert EngineConfig().tokens_per_block == 16


def sizes(name: str, value: object) -> dict[str, Any]:
    return {name: value}


@pytest.mark.parametrize("name", ["max_batch_tokens", "max_batch_sequences", "max_prefill_chunk", "max_queue_requests"])
def test_config_names_the_field_of_a_missing_size(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        EngineConfig(**sizes(name, None))


@pytest.mark.parametrize("value", [0, -1, 1.5, "16", float("nan")])
@pytest.mark.parametrize(
    "name",
    ["max_batch_tokens", "max_batch_sequences", "max_prefill_chunk", "block_size", "max_queue_requests"],
)
def test_config_names_the_field_of_an_invalid_size(name: str, value: object) -> None:
    """A size that is not an integer of at least 1 is rejected with the field's name."""
    with pytest.raises(ValueError, match=name):
        EngineConfig(**sizes(name, value))


@pytest.mark.parametrize("value", [1, 0.5, -2, float("nan")])
def test_config_rejects_a_slowdown_without_capacity_for_prompts(value: float) -> None:
    """With a slowdown of 1 or less, no prompt could ever be computed in a step with decodes."""
    for name in ("max_slowdown", "max_decode_slowdown"):
        with pytest.raises(ValueError, match=name):
            EngineConfig(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [0, -0.1, 1.01, float("nan")])
def test_config_rejects_an_invalid_fraction_of_a_device(value: float) -> None:
    with pytest.raises(ValueError, match=r"device_memory must be above 0 and at most 1"):
        EngineConfig(device_memory=value)


@pytest.mark.parametrize("name", ["block_size", "num_blocks", "max_model_len", "num_threads"])
def test_config_accepts_none_for_values_of_the_model(name: str) -> None:
    """None is valid if the model or the machine determines the value, and 0 is not."""
    assert getattr(EngineConfig(**sizes(name, None)), name) is None
    with pytest.raises(ValueError, match=name):
        EngineConfig(**sizes(name, 0))


def test_config_rejects_a_batch_that_exceeds_a_step() -> None:
    """Each running sequence decodes in every step, so a step must have a token for each."""
    with pytest.raises(ValueError, match=r"max_batch_sequences.*max_batch_tokens"):
        EngineConfig(max_batch_tokens=8, max_batch_sequences=9)


def test_config_rejects_a_context_without_capacity_for_an_answer() -> None:
    """A context of one token has no capacity for an answer."""
    with pytest.raises(ValueError, match="max_model_len"):
        EngineConfig(max_model_len=1)


@pytest.mark.parametrize("value", [0, -1.0, float("nan")])
def test_config_rejects_a_wait_of_zero(value: float) -> None:
    """With a limit of 0 no request could be admitted. Infinity leaves only the queue's size as a limit."""
    with pytest.raises(ValueError, match="max_queue_wait_s must be above 0"):
        EngineConfig(max_queue_wait_s=value)
    assert EngineConfig(max_queue_wait_s=float("inf")).max_queue_wait_s == float("inf")
