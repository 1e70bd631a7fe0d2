"""Affinity keys, by which requests with the same prefix reach the replica that has it cached."""

from __future__ import annotations

import pytest
from google.protobuf import json_format
from google.protobuf.message import Message
from sluice.v1 import chat_pb2, completion_pb2, embedding_pb2, response_pb2, text_generation_pb2
from sluice_client import affinity as clients
from sluice_client.v1 import chat_pb2 as clients_chat
from sluice_client.v1 import completion_pb2 as clients_completion
from sluice_client.v1 import response_pb2 as clients_response
from sluice_client.v1 import text_generation_pb2 as clients_text_generation

from gateway.upstream.affinity import affinity_key

KEY = "Bearer sk-sluice-a-1"


def chat(*turns: tuple[str, str]) -> chat_pb2.ChatRequest:
    """Return a conversation of roles and texts."""
    messages = [{"role": f"ROLE_{role.upper()}", "content": [{"text": text}]} for role, text in turns]
    return json_format.ParseDict({"messages": messages}, chat_pb2.ChatRequest())


def response(instructions: str, *texts: str) -> response_pb2.CreateResponseRequest:
    """Return a response request with a user's items."""
    items = [{"message": {"role": "ROLE_USER", "content": [{"text": text}]}} for text in texts]
    found = {"instructions": instructions, "input": items}
    return json_format.ParseDict(found, response_pb2.CreateResponseRequest())


def completion(*prompts: str) -> completion_pb2.CompleteRequest:
    """Return a completion request of these texts."""
    return json_format.ParseDict({"prompts": [{"text": text} for text in prompts]}, completion_pb2.CompleteRequest())


FIRST = chat(("system", "Be kind."), ("user", "Hello!"))
TOKENS = completion_pb2.CompleteRequest(prompts=[{"token_ids": {"ids": [1, 2]}}])
TEXT = text_generation_pb2.GenerateTextRequest(text_input="Once")
TWINS: list[tuple[Message, Message]] = [
    (FIRST, clients_chat.ChatRequest()),
    (response("Be kind.", "Hello!"), clients_response.CreateResponseRequest()),
    (completion("Once"), clients_completion.CompleteRequest()),
    (TOKENS, clients_completion.CompleteRequest()),
    (TEXT, clients_text_generation.GenerateTextRequest()),
]


def test_all_turns_of_a_conversation_have_the_same_key() -> None:
    """The key depends on first question, system prompt and credential only."""
    later = chat(("system", "Be kind."), ("user", "Hello!"), ("assistant", "Hi."), ("user", "And now?"))
    assert affinity_key(later, KEY) == affinity_key(FIRST, KEY)
    others = [chat(("system", "Be kind."), ("user", "Hello?")), chat(("system", "Be."), ("user", "Hello!"))]
    keys = {affinity_key(each, KEY) for each in (FIRST, *others)} | {affinity_key(FIRST, None)}
    assert len(keys) == 4
    assert all(len(key) == 16 for key in keys)


def test_key_of_a_response_depends_on_instructions_and_first_input() -> None:
    """Later items don't change the key of a response; instructions do."""
    assert affinity_key(response("a", "b", "c"), KEY) == affinity_key(response("a", "b"), KEY)
    assert affinity_key(response("a", "b"), KEY) != affinity_key(response("", "b"), KEY)


def test_prompt_cache_key_replaces_the_computed_key() -> None:
    """Requests with the same prompt cache key have one key, but not for two credentials."""
    assert affinity_key(FIRST, KEY, "user-7") == affinity_key(completion("x"), KEY, "user-7")
    assert affinity_key(FIRST, KEY, "user-7") != affinity_key(FIRST, "Bearer other", "user-7")


def test_key_depends_on_the_first_4096_characters() -> None:
    """The first 4,096 characters form the key, so that questions about one document share it."""
    document = "x" * 5000
    assert affinity_key(completion(f"{document}?"), KEY) == affinity_key(completion(f"{document}!"), KEY)
    assert affinity_key(completion("y"), KEY) != affinity_key(completion("x"), KEY)


@pytest.mark.parametrize("request_", [embedding_pb2.EmbedRequest(), completion_pb2.CompleteRequest()])
def test_request_without_a_prefix_has_no_key(request_: Message) -> None:
    """A request without a reusable prefix has no key, so that any replica may serve it."""
    assert not affinity_key(request_, KEY)


@pytest.mark.parametrize(("ours", "theirs"), TWINS)
def test_python_client_computes_the_same_keys(ours: Message, theirs: Message) -> None:
    """The Python client computes the same keys, so that REST and gRPC share prefixes."""
    theirs.ParseFromString(ours.SerializeToString())
    assert clients.affinity_key(theirs, KEY) == affinity_key(ours, KEY) != ""
