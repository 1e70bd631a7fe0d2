"""Embeddings of the OpenAI style: conversion of the body to the contract's message, and of the vectors to JSON."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from sluice.v1 import embedding_pb2

from gateway.dialects.openai.embedding import OpenAIEmbeddingTranslator
from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.translator import ParsedRequest
from tests.gateway.fake_services import VECTORS


def parse(**fields: Any) -> ParsedRequest[embedding_pb2.EmbedRequest]:
    """Return the call for a valid body changed by `fields`."""
    return OpenAIEmbeddingTranslator().parse(HttpRequest(json.dumps({"model": "m", "input": "hi", **fields}).encode()))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"inputs": [{"text": "hi"}]}),
        (
            {"truncate_prompt_tokens": -1},
            {"inputs": [{"text": "hi"}], "serving": {"errorBehavior": "ERROR_BEHAVIOR_TRUNCATE"}},
        ),
        ({"input": ["a", "b"], "dimensions": 8}, {"inputs": [{"text": "a"}, {"text": "b"}], "dimensions": 8}),
        ({"input": [5, 6]}, {"inputs": [{"tokenIds": {"ids": [5, 6]}}]}),
        ({"input": [[5], [6]], "user": "u"}, {"inputs": [{"tokenIds": {"ids": [5]}}, {"tokenIds": {"ids": [6]}}]}),
    ],
)
def test_request(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    """Texts and token ids become inputs."""
    call = parse(**fields)
    assert call.request == ParseDict({"model": "m", **expected}, embedding_pb2.EmbedRequest())
    assert not call.stream


def test_vectors_are_equal_as_numbers_and_base64() -> None:
    """Both forms carry the same float32 values, in the order of the inputs."""
    plain = json.loads(parse(encoding_format="float").encoder.whole(VECTORS))
    assert plain["object"] == "list"
    assert [(each["object"], each["index"]) for each in plain["data"]] == [("embedding", 0), ("embedding", 1)]
    assert plain["usage"] == {"prompt_tokens": 7, "total_tokens": 7}
    coded = json.loads(parse(encoding_format="base64").encoder.whole(VECTORS))
    for each, other in zip(plain["data"], coded["data"], strict=True):
        assert tuple(each["embedding"]) == struct.unpack("<2f", base64.b64decode(other["embedding"]))


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"input": ["a"] * 2049}, "input", "at most 2048"),
        ({"input": [-1]}, "input.0", "from 0"),
        ({"input": {"a": 1}}, "input", "must be a string or a list"),
        ({"dimensions": 0.5}, "dimensions", "must be an integer"),
        ({"dimensions": -1}, "dimensions", "from 1 to"),
        ({"truncate_prompt_tokens": 5}, "truncate_prompt_tokens", "must be -1"),
        ({"encoding_format": "int8"}, "encoding_format", "'int8' is not supported"),
        ({"stream": True}, "stream", "unknown field"),
    ],
)
def test_bad_field_is_named(fields: dict[str, Any], field: str, words: str) -> None:
    """An invalid value is rejected with its name and the rule."""
    with pytest.raises(Failure) as caught:
        parse(**fields)
    assert (caught.value.status, caught.value.field) == (400, field)
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("fields", "path", "name"),
    [
        ({}, "inputs[0]", "input"),
        ({"input": ["a", "b"]}, "inputs[1].text", "input.1"),
        ({"input": [1, 2]}, "inputs[0].token_ids.ids[1]", "input.1"),
        ({}, "dimensions", "dimensions"),
    ],
)
def test_contract_path_is_mapped_to_the_callers_field(fields: dict[str, Any], path: str, name: str) -> None:
    """A violation is reported with the caller's field names."""
    assert parse(**fields).caller_name(path) == name
