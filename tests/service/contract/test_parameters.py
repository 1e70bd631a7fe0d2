"""Parameters of the contract and as values have the same names, defaults and ranges."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import protovalidate
import pytest
from google.protobuf.message import Message
from sluice.v1 import chat_pb2, logprobs_pb2, sampling_pb2

from service.contract.parts.parameters import (
    RANGES,
    given_sampling,
    sampling_message,
    stopping_message,
    to_logprobs,
    to_sampling,
    to_stopping,
)
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams

Params = SamplingParams | StopParams

# A value of each parameter that is not its default.
SAMPLING: dict[str, Any] = {
    "temperature": 0.0,
    "top_p": 0.5,
    "top_k": 3,
    "min_p": 0.25,
    "typical_p": 0.5,
    "frequency_penalty": -1.0,
    "presence_penalty": 1.5,
    "repetition_penalty": 2.0,
    "seed": 2**64 - 1,
    "logit_bias": {5: -100.0, 6: 0.5},
    "watermark": True,
    "allowed_token_ids": (5, 6),
}
STOPPING: dict[str, Any] = {
    "max_tokens": 9,
    "min_tokens": 2,
    "stop": ("a", "b"),
    "stop_token_ids": (3,),
    "ignore_eos": True,
    "include_stop_str_in_output": True,
}
MESSAGES: dict[type[Params], Any] = {SamplingParams: sampling_pb2.SamplingParams, StopParams: sampling_pb2.StopParams}


def to_values(message: Message) -> Params:
    if isinstance(message, sampling_pb2.SamplingParams):
        return to_sampling(message)
    assert isinstance(message, sampling_pb2.StopParams)
    return to_stopping(message)


def to_message(values: Params) -> Message:
    return sampling_message(values) if isinstance(values, SamplingParams) else stopping_message(values)


every_kind = pytest.mark.parametrize(("kind", "given"), [(SamplingParams, SAMPLING), (StopParams, STOPPING)])
every_parameter = pytest.mark.parametrize(
    ("kind", "name", "value"),
    [(kind, *item) for kind, given in ((SamplingParams, SAMPLING), (StopParams, STOPPING)) for item in given.items()],
)


@every_kind
def test_parameter_names_equal_the_contracts(kind: type[Params], given: Mapping[str, Any]) -> None:
    """The contract and the values have the same parameters, and each of them is tested here."""
    names = [field.name for field in MESSAGES[kind].DESCRIPTOR.fields]
    assert sorted(names) == sorted(field.name for field in fields(kind)) == sorted(given)


@every_parameter
def test_each_parameter_survives_a_round_trip(kind: type[Params], name: str, value: Any) -> None:
    """A single given value is kept, and all others have their defaults."""
    message = MESSAGES[kind](**{name: value})
    values = to_values(message)
    assert values == kind(**{name: value})
    assert getattr(values, name) != getattr(kind(), name)
    assert to_values(to_message(values)) == values
    assert [type(each) for each in _containers(values)] == [
        dict if isinstance(each, Mapping) else tuple for each in _containers(values)
    ]


def _containers(values: Params) -> list[Any]:
    found = [getattr(values, field.name) for field in fields(values)]
    return [each for each in found if isinstance(each, Mapping | Sequence) and not isinstance(each, str)]


@every_kind
def test_all_parameters_survive_a_round_trip_together(kind: type[Params], given: Mapping[str, Any]) -> None:
    """No value gets into another parameter."""
    message = MESSAGES[kind](**given)
    assert to_values(message) == kind(**given)
    assert to_message(kind(**given)) == message


@pytest.mark.parametrize("zero", ["temperature", "min_p", "frequency_penalty", "presence_penalty", "seed", "watermark"])
def test_zero_differs_from_an_omitted_value(zero: str) -> None:
    """A value of zero is different from an omitted one."""
    given: dict[str, Any] = {zero: 0}
    values = to_sampling(sampling_pb2.SamplingParams(**given))
    assert getattr(values, zero) == 0
    assert zero in {field.name for field, _ in sampling_message(values).ListFields()}


def test_zero_top_k_disables_top_k() -> None:
    """A `top_k` of 0 is given, so that no default of the model replaces it, and turns the parameter off."""
    message = sampling_pb2.SamplingParams(top_k=0)
    assert (to_sampling(message).top_k, given_sampling(message)) == (None, frozenset({"top_k"}))


def test_sampling_defaults_are_echoed() -> None:
    """Every default is echoed, except parameters that are off; a seed is echoed once it is drawn."""
    defaults = {"temperature": 1, "top_p": 1, "min_p": 0, "typical_p": 1, "repetition_penalty": 1}
    defaults |= {"frequency_penalty": 0, "presence_penalty": 0, "watermark": False}
    echoed = sampling_message(to_sampling(sampling_pb2.SamplingParams()))
    assert {field.name: value for field, value in echoed.ListFields()} == defaults
    seeded = sampling_message(to_sampling(sampling_pb2.SamplingParams(seed=7)).with_seed())
    assert {field.name: value for field, value in seeded.ListFields()} == defaults | {"seed": 7}
    assert to_sampling(echoed) == SamplingParams()


def test_stopping_defaults_are_echoed() -> None:
    """Without a limit none is invented: the preparation fills in the model's context."""
    echoed = stopping_message(to_stopping(sampling_pb2.StopParams()))
    defaults = {"min_tokens": 0, "ignore_eos": False, "include_stop_str_in_output": False}
    assert {field.name: value for field, value in echoed.ListFields()} == defaults


def test_floats_are_echoed_unchanged() -> None:
    """A float that went through the contract is the same float."""
    echoed = sampling_message(to_sampling(sampling_pb2.SamplingParams(temperature=0.7)))
    assert echoed.temperature == np.float32(0.7)


def test_present_logprobs_options_request_logprobs() -> None:
    """Empty options request the logprobs of the sampled tokens."""
    assert to_logprobs(chat_pb2.ChatRequest()) is None
    assert to_logprobs(chat_pb2.ChatRequest(logprobs=logprobs_pb2.LogprobsOptions())) == LogprobsOptions(0)
    assert to_logprobs(chat_pb2.ChatRequest(logprobs={"top_logprobs": 4})) == LogprobsOptions(4)


NUMBERS = [
    (prefix, message, field)
    for prefix, message in (
        ("sampling", sampling_pb2.SamplingParams),
        ("stopping", sampling_pb2.StopParams),
        ("logprobs", logprobs_pb2.LogprobsOptions),
    )
    for field in message.DESCRIPTOR.fields
    if not field.is_repeated and field.type in {field.TYPE_FLOAT, field.TYPE_UINT32}
]


@pytest.mark.parametrize(("prefix", "message", "field"), NUMBERS, ids=[f"{p}.{f.name}" for p, _, f in NUMBERS])
def test_ranges_equal_the_contracts_rules(prefix: str, message: type[Message], field: Any) -> None:
    """A number is in a parameter's range if and only if the contract's rules accept it."""
    allowed = RANGES[f"{prefix}.{field.name}"]
    probes: list[float]
    if field.type == field.TYPE_UINT32:
        probes = [0, 1, 2, 19, 20, 21, 100, 2**32 - 1]
    else:
        ends = [-100.0, -2.0, 0.0, 1.0, 2.0, 100.0]
        near = [float(np.nextafter(np.float32(end), np.float32(way))) for end in ends for way in (-math.inf, math.inf)]
        probes = [*ends, *near, 0.5, 1e30, -1e30, math.inf, -math.inf, math.nan]
    for probe in probes:
        assert (probe in allowed) == passes(message(**{field.name: probe})), (probe, str(allowed))


def passes(message: Message) -> bool:
    try:
        protovalidate.validate(message)
    except protovalidate.ValidationError:
        return False
    return True


def test_every_numeric_parameter_has_a_range() -> None:
    """An engine checks the same ranges as the contract."""
    assert set(RANGES) == {f"{prefix}.{field.name}" for prefix, _, field in NUMBERS}
