"""Models and endpoints: conversion between values and messages."""

from __future__ import annotations

import dataclasses
import json

import pytest
from sluice.v1 import endpoint_pb2, model_pb2

from service.contract.models.endpoint_json import EndpointJson
from service.contract.models.model import endpoint_message, model_message
from service.deployment.endpoint_document import EndpointDocument
from service.generation.service_level import ServiceLevel
from service.registry.description import Endpoint, ModelDescription, ModelState, ServedEntity, Task

ENTITIES = (ServedEntity("a", "small", 90), ServedEntity("b", "large", 10))
ENDPOINT = Endpoint("e", Task.CHAT, ENTITIES, 1_500_000_000, 2_500_000_000, config_version=3)
MODEL = ModelDescription(
    name="m",
    created_ns=1_500_000_000,
    tasks=(Task.CHAT, Task.COMPLETION),
    architecture="LlamaForCausalLM",
    max_model_len=64,
    vocab_size=100,
    num_parameters=7,
    dtype="bfloat16",
    fingerprint="fp",
    supports_tools=True,
    supports_reasoning=True,
    version="3",
    embedding_dimensions=4,
    supports_resume=True,
    parent="base",
)


def test_model_is_converted_completely() -> None:
    """Every field of the contract has the description's value."""
    message = model_message(MODEL, ModelState.ASLEEP, 10**9)
    assert message.state == model_pb2.MODEL_STATE_ASLEEP
    assert {field.name for field, _ in message.ListFields()} == {field.name for field in message.DESCRIPTOR.fields}
    assert list(message.tasks) == [model_pb2.TASK_CHAT, model_pb2.TASK_COMPLETION]
    assert (message.created.seconds, message.created.nanos) == (1, 500_000_000)
    assert message.system_fingerprint == "fp"
    same = {field.name for field in dataclasses.fields(MODEL)} & {field.name for field in message.DESCRIPTOR.fields}
    assert list(message.input_modalities) == [model_pb2.MODALITY_TEXT]
    for name in same - {"tasks", "input_modalities"}:
        assert getattr(message, name) == getattr(MODEL, name)


@pytest.mark.parametrize("task", Task)
def test_every_task_has_the_contracts_name_and_number(task: Task) -> None:
    """Tasks have the contract's names and numbers: the stored form of an endpoint has the number."""
    message = endpoint_message(dataclasses.replace(ENDPOINT, task=task))
    assert (model_pb2.Task.Name(message.task), message.task) == (f"TASK_{task.name}", task.value)
    assert len(Task) == len(model_pb2.Task.values()) - 1


@pytest.mark.parametrize(
    "endpoint",
    [
        ENDPOINT,
        dataclasses.replace(ENDPOINT, task=None),
        dataclasses.replace(ENDPOINT, service_level=ServiceLevel(0.5, None)),
    ],
)
def test_endpoints_equal_their_copies_in_the_file(endpoint: Endpoint) -> None:
    """Endpoints read from a file equal those that were written."""
    form, document = EndpointJson(is_strict=True), EndpointDocument({endpoint.name: endpoint})
    assert form.parse(form.dump(document)) == document


def test_models_own_endpoint_routes_all_traffic_to_it() -> None:
    """All traffic of a model's own endpoint is the model's."""
    message = endpoint_message(Endpoint.of_model(MODEL))
    entity = endpoint_pb2.ServedEntity(name="m", model="m", traffic_percentage=100)
    assert (message.is_model, message.task, list(message.entities)) == (True, model_pb2.TASK_CHAT, [entity])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "a JSON object"),
        ('{"endpoint": []}', "endpoint"),
        ("[" * 100_000, "nested too deeply"),
        ("{", "Expecting"),
        ('{"endpoints": [{"name": "e"}]}', "'e': "),
        (
            json.dumps({"endpoints": [{"name": "e", "entities": [{"name": "a", "model": "m"}]}]}),
            "the endpoint 'e': .*100",
        ),
        ('{"endpoints": [{"name": "e", "service_level": {"token_seconds": 0}}]}', "'e': .*greater than 0"),
    ],
)
def test_file_with_other_content_is_rejected(text: str, message: str) -> None:
    """The error contains the problem and the endpoint's name."""
    with pytest.raises(ValueError, match=message):
        EndpointJson(is_strict=True).parse(text)
