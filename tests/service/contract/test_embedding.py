"""Embeddings: conversion between messages and values."""

from __future__ import annotations

from typing import Any

from google.protobuf import json_format
from sluice.v1 import embedding_pb2

from service.contract.encodings.embedding import embedding_messages, to_texts
from service.generation.prompts.conversation import RawText, RawTokens
from service.generation.requests.embedding import TextsToEmbed


def test_every_field_is_converted() -> None:
    """Every field of a request is a value of the internal request."""
    fields: dict[str, Any] = {
        "model": "m",
        "inputs": [{"text": "a"}, {"tokenIds": {"ids": [1, 2]}}],
        "instruction": "i",
        "dimensions": 3,
        "inputType": "INPUT_TYPE_QUERY",
        "serving": {"priority": -3, "deployment": "d", "errorBehavior": "ERROR_BEHAVIOR_TRUNCATE"},
    }
    request = json_format.ParseDict(fields, embedding_pb2.EmbedRequest())
    assert {each.name for each, _ in request.ListFields()} == {each.name for each in request.DESCRIPTOR.fields}
    assert to_texts(request) == TextsToEmbed(
        model="m",
        inputs=(RawText("a", "inputs[0]"), RawTokens([1, 2], "inputs[1]")),
        deployment="d",
        instruction="i",
        dimensions=3,
        priority=-3,
        truncates=True,
        purpose="query",
    )


def test_omitted_fields_have_their_defaults() -> None:
    """The defaults are the model's own dimensions and no instruction."""
    assert to_texts(embedding_pb2.EmbedRequest(model="m")) == TextsToEmbed("m", ())


def test_vectors_are_returned_in_order() -> None:
    """Each vector has its index."""
    first, second = embedding_messages([[1.0, 2.0], [3.0, 4.0]])
    assert (first.index, list(first.values)) == (0, [1.0, 2.0])
    assert (second.index, list(second.values)) == (1, [3.0, 4.0])
