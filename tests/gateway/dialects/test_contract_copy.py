"""Parameters with the same name in a body and in the contract need only the body's field."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from sluice.v1 import sampling_pb2, serving_pb2

from gateway.dialects.azure.chat import AzureChatBody, AzureTranslator
from gateway.dialects.databricks.chat import DatabricksChatBody, DatabricksChatTranslator
from gateway.dialects.databricks.completion import DatabricksCompletionBody, DatabricksCompletionTranslator
from gateway.dialects.mindie.body import GenerateParameters
from gateway.dialects.mindie.generate import MindieTranslator
from gateway.dialects.openai.chat import ChatCompletionBody, OpenAITranslator
from gateway.dialects.openai.completion import OpenAICompletionBody, OpenAICompletionTranslator
from gateway.dialects.openai.response import OpenAIResponseTranslator
from gateway.dialects.openai_family.parameters.sampling import DrawingBody
from gateway.dialects.openai_family.responses.body import ResponseBody
from gateway.dialects.seam.contract_copy import copy_fields
from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.translator import Translator

MESSAGES = {"model": "m", "messages": []}
PROMPT = {"model": "m", "prompt": "hi"}
BODIES: list[tuple[type[msgspec.Struct], Callable[[], Translator], dict[str, Any]]] = [
    (ChatCompletionBody, OpenAITranslator, MESSAGES),
    (OpenAICompletionBody, OpenAICompletionTranslator, PROMPT),
    (ResponseBody, OpenAIResponseTranslator, {"model": "m", "input": "hi"}),
    (DatabricksChatBody, DatabricksChatTranslator, MESSAGES),
    (DatabricksCompletionBody, DatabricksCompletionTranslator, PROMPT),
    (AzureChatBody, AzureTranslator, MESSAGES),
    (GenerateParameters, lambda: MindieTranslator(stream=False), {"text_input": "hi"}),
]
GROUPS: dict[str, type[Message]] = {
    "sampling": sampling_pb2.SamplingParams,
    "stopping": sampling_pb2.StopParams,
    "serving": serving_pb2.ServingOptions,
}


def value_of(field: Any) -> object:
    """Return a valid value of the field."""
    if field.message_type is not None:
        return {"5": 0.5}
    plain: object = {
        FieldDescriptor.CPPTYPE_FLOAT: 0.5,
        FieldDescriptor.CPPTYPE_BOOL: True,
        FieldDescriptor.CPPTYPE_STRING: "x",
    }.get(field.cpp_type, 7)
    return [plain] if field.is_repeated else plain


CASES = [
    (body, translator, base, group, field)
    for body, translator, base in BODIES
    for group, message in GROUPS.items()
    for field in message.DESCRIPTOR.fields
    if field.name in body.__struct_fields__
    and field.enum_type is None
    and (body, field.name) != (GenerateParameters, "priority")  # MindIE counts in another way
    and field.name != "request_id"  # vLLM's is an id for logs; the contract's allows to repeat a call
]


@pytest.mark.parametrize(
    ("body", "translator", "base", "group", "field"),
    CASES,
    ids=[f"{body.__name__} {field.name}" for body, _, _, _, field in CASES],
)
def test_parameter_with_the_contracts_name_is_copied(
    body: type[msgspec.Struct], translator: Callable[[], Translator], base: dict[str, Any], group: str, field: Any
) -> None:
    """Every parameter that a dialect documents under the contract's name is copied to the contract."""
    given = {field.name: value_of(field)}
    body_fields = base | ({"parameters": given} if body is GenerateParameters else given)
    headers, query = {"extra-parameters": "pass-through"}, {"api-version": "2024-05-01-preview"}
    request = translator().parse(HttpRequest(json.dumps(body_fields).encode(), headers, {"model": "m"}, query)).request
    copied = getattr(getattr(request, group), field.name)
    expected = {5: 0.5} if field.message_type is not None else value_of(field)
    assert (dict(copied) if field.message_type is not None else copied) == expected


def test_openais_family_has_every_sampling_parameter() -> None:
    """Every sampling parameter of the contract is a field in OpenAI's family."""
    assert {field.name for field in sampling_pb2.SamplingParams.DESCRIPTOR.fields} <= set(DrawingBody.__struct_fields__)


class Odd(msgspec.Struct):
    """A body with fields of several messages."""

    top_k: int | None = None
    stop: list[str] | None = None
    stop_token_ids: list[int] | None = None
    logit_bias: dict[int, float] | None = None
    error_behavior: str | None = None
    colour: str | None = None


@pytest.mark.parametrize(
    ("message", "body", "field", "text"),
    [
        (sampling_pb2.SamplingParams(), Odd(top_k=-1), "a.top_k", "must be from 0 to 4294967295"),
        (sampling_pb2.StopParams(), Odd(stop_token_ids=[1, 2**32]), "a.stop_token_ids.1", "must be from 0 to"),
        (sampling_pb2.StopParams(), Odd(stop_token_ids=[1] * 65), "a.stop_token_ids", "must have at most 64 items"),
        (sampling_pb2.SamplingParams(), Odd(logit_bias={-1: 0.5}), "a.logit_bias.-1", "the key must be from 0 to"),
        (
            sampling_pb2.SamplingParams(),
            Odd(logit_bias=dict.fromkeys(range(1025), 0.5)),
            "a.logit_bias",
            "must have at most 1024 items",
        ),
    ],
)
def test_value_outside_the_contracts_types_is_rejected(message: Any, body: Odd, field: str, text: str) -> None:
    """A value outside the contract's types is rejected with the caller's path and the contract's limit."""
    with pytest.raises(Failure) as caught:
        copy_fields(body, message, "a.")
    assert caught.value.field == field
    assert text in caught.value.message


def test_enums_unset_and_excluded_fields_are_not_copied() -> None:
    """Enums are left to the dialect; unset and excluded fields stay unset."""
    serving, stopping = serving_pb2.ServingOptions(), sampling_pb2.StopParams()
    copy_fields(Odd(error_behavior="truncate", colour="red"), serving)
    copy_fields(Odd(stop=["END"], stop_token_ids=[3]), stopping, but={"stop"})
    assert serving == serving_pb2.ServingOptions()
    assert stopping == sampling_pb2.StopParams(stop_token_ids=[3])
