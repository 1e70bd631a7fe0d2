"""Each invalid request gets its status, OpenAI's error format, the field's name and a reason."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.dialects.openai.chat import OpenAITranslator
from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.http_request import HttpRequest
from tests.gateway.conftest import Gateway, chat_body

MAX_BODY_BYTES = 300_000


@pytest.fixture
def flags() -> list[str]:
    """Set a small limit for the tests."""
    return ["--max-body-bytes", str(MAX_BODY_BYTES)]


@dataclass(frozen=True)
class Case:
    """One invalid request: the body and the expected `error`, whose message contains `words`."""

    name: str
    content: bytes
    words: str
    param: str | None = None
    code: str | None = None
    status: int = 400
    headers: dict[str, str] = field(default_factory=dict)


def fields(name: str, value: Any, words: str, code: str = "invalid_type", param: str | None = None) -> Case:
    """Return a body with one invalid field."""
    return Case(f"{name}={value!r:.40}", json.dumps(chat_body(**{name: value})).encode(), words, param or name, code)


def message(value: Any, param: str, words: str, code: str = "invalid_type") -> Case:
    """Return a body with one invalid message."""
    return Case(f"{param} {value!r:.40}", json.dumps(chat_body(messages=[value])).encode(), words, param, code)


GOOD = json.dumps(chat_body()).encode()
UNSUPPORTED = "unsupported_parameter"
CASES = [
    Case("empty", b"", "line 1, column 1"),
    Case("not an object", b"[]", "the body must be an object, not a list", code="invalid_type"),
    Case("trailing comma", b'{"model": "m",\n "messages": [],}', "line 2, column 17"),
    Case("trailing text", GOOD + b"x", "trailing characters"),
    Case("cut off", GOOD[:-1], f"column {len(GOOD)}"),
    Case("column counts characters", '{"model": "äöü", x'.encode(), "line 1, column 18"),
    Case("NaN", b'{"model": "m", "messages": [], "temperature": NaN}', "line 1, column 47"),
    Case("Infinity", b'{"model": "m", "messages": [], "temperature": -Infinity}', "line 1"),
    Case("NaN in a value that is not read", b'{"prediction": {"a": [NaN]}}', "line 1, column 23"),
    Case("number too large", b'{"temperature": 1e999}', "out of range", "temperature", "invalid_value"),
    Case("endless integer", b'{"seed": ' + b"9" * 5000 + b"}", "out of range", "seed", "invalid_value"),
    Case("invalid UTF-8", b'{"model": "\xff"}', "not valid UTF-8"),
    Case("invalid UTF-8 in a schema", b'{"tools": "\n\xff"}', "line 2, column 1: the body is not valid UTF-8"),
    Case("half a surrogate pair", b'{"model": "\\ud800"}', "surrogate"),
    Case("byte order mark", b"\xef\xbb\xbf" + GOOD, "line 1, column 1"),
    Case("duplicate key", GOOD[:-1] + b', "n": 1, "n": 2}', "duplicate key 'n'"),
    Case("duplicate key inside", b'{"model": "m", "messages": [{"role": "user", "role": "user"}]}',
         "duplicate key 'role'"),
    Case("deep nesting", b'{"functions": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    Case("deep objects", b'{"audio": ' + b'{"a":' * 40_000 + b"1" + b"}" * 40_000 + b"}", "nested too deeply"),
    Case("missing messages", b'{"model": "m"}', "required", "messages", "missing_required_parameter"),
    Case("too many messages", json.dumps(chat_body(messages=[{"role": "user"}] * 4097)).encode(), "at most 4096 items",
         "messages", "invalid_value"),
    fields("stop", ["a"] * 17, "at most 16 items", "invalid_value"),
    fields("stop_token_ids", [1] * 65, "at most 64 items", "invalid_value"),
    fields("logit_bias", dict.fromkeys(range(1025), 1), "at most 1024 items", "invalid_value"),
    fields("tools", [{"type": "function", "function": {"name": "f"}}] * 129, "at most 128 items", "invalid_value"),
    message({"role": "user", "content": [{"type": "text", "text": ""}] * 1025}, "messages.0.content",
            "at most 1024 items", "invalid_value"),
    message({"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": ""}}] * 129},
            "messages.0.tool_calls", "at most 128 items", "invalid_value"),
    Case("too large", b" " * MAX_BODY_BYTES + GOOD, str(MAX_BODY_BYTES), status=413),
    Case("form", GOOD, "application/json", status=415,
         headers={"content-type": "application/x-www-form-urlencoded", "origin": "https://a.example"}),
    Case("charset", GOOD, "utf-8", status=415, headers={"content-type": "application/json; charset=latin-1"}),
    Case("compressed", GOOD, "compressed", status=415, headers={"content-encoding": "gzip"}),
    fields("model", 5, "must be a string, not an integer"),
    fields("messages", {}, "must be a list, not an object"),
    fields("messages", None, "must be a list, not null"),
    fields("stream", 1, "must be a boolean, not an integer"),
    fields("stream", "true", "must be a boolean, not a string"),
    fields("temperature", "5", "must be a number, not a string"),
    fields("temperature", True, "must be a number, not a boolean"),
    fields("n", 1.5, "must be an integer, not a number"),
    fields("n", "1", "must be an integer, not a string"),
    fields("n", -1, "must be from 1 to 128", "invalid_value"),
    fields("max_tokens", -1, "must be from 1 to 4294967295", "invalid_value"),
    fields("max_completion_tokens", 2**32, "must be from 1 to 4294967295", "invalid_value"),
    fields("top_k", -2, "must be at least -1", "invalid_value"),
    fields("top_logprobs", 3, "only allowed with logprobs: true", "invalid_value"),
    fields("request_id", "a" * 257, "256 characters", "invalid_value"),
    fields("seed", 2**64, f"to {2**64 - 1}", "invalid_value"),
    fields("seed", -(2**63) - 1, f"from {-(2**63)}", "invalid_value"),
    fields("stop", 5, "must be a string or a list, not an integer"),
    fields("stop", ["a", 5], "must be a string", param="stop.1"),
    fields("stop_token_ids", [1, -1], "must be from 0", "invalid_value", "stop_token_ids.1"),
    fields("logit_bias", {"x": 1}, "each key must be an integer, not a string"),
    fields("logit_bias", {"5": "1"}, "must be a number, not a string"),
    fields("logit_bias", {"-1": 1}, "from 0 to", "invalid_value", "logit_bias.-1"),
    fields("tool_choice", "never", "'never' is not supported", "invalid_value"),
    fields("tool_choice", 5, "must be a string or an object"),
    fields("tools", [{"type": "retrieval"}], "'retrieval' is not supported", "invalid_value", "tools.0.type"),
    fields("tools", [{"type": "custom"}], "required, but missing", "missing_required_parameter", "tools.0.custom"),
    fields("tools", [{"type": "function"}], "required", "missing_required_parameter", "tools.0.function"),
    fields("response_format", {"type": "xml"}, "'xml' is not supported", "invalid_value", "response_format.type"),
    fields(
        "response_format", {"type": "json_schema", "json_schema": {"name": "s"}}, "required",
        "missing_required_parameter", "response_format.json_schema.schema",
    ),
    fields("reasoning_effort", "lots", "'lots' is not supported", "invalid_value"),
    fields("stream_options", {"include_usage": True}, "only allowed with stream: true", "invalid_value"),
    fields("colour", 1, "unknown field", "unknown_parameter"),
    fields("store", True, "not stored", UNSUPPORTED),
    fields("modalities", ["text", "audio"], "text", UNSUPPORTED),
    fields("service_tier", "first class", "must be one of auto, default", UNSUPPORTED),
    fields("audio", {"voice": "x"}, "not supported", UNSUPPORTED),
    fields("functions", [], "use tools", UNSUPPORTED),
    fields("function_call", "auto", "use tool_choice", UNSUPPORTED),
    fields("web_search_options", {}, "not supported", UNSUPPORTED),
    fields("moderation", {"model": "x"}, "not supported", UNSUPPORTED),
    message({"content": "x"}, "messages.0.role", "required", "missing_required_parameter"),
    message({"role": "king", "content": "x"}, "messages.0.role", "'king' is not supported", "invalid_value"),
    message({"role": "user", "content": 5}, "messages.0.content", "must be a string or a list, not an integer"),
    fields(
        "tools", [{"type": "function", "function": {"name": "f"}, "mood": 1}], "unknown field", "unknown_parameter",
        "tools.0.mood",
    ),
    fields(
        "tools", [{"type": "function", "function": {"name": "f", "mood": 1}}], "unknown field", "unknown_parameter",
        "tools.0.function.mood",
    ),
    fields(
        "response_format", {"type": "json_object", "mood": 1}, "unknown field", "unknown_parameter",
        "response_format.mood",
    ),
    fields(
        "tool_choice", {"type": "function", "function": {"name": "f"}, "mood": 1}, "unknown field",
        "unknown_parameter", "tool_choice.mood",
    ),
    message(
        {"role": "user", "content": [{"type": "input_audio"}]}, "messages.0.content.0.type",
        "'input_audio' is not supported", "invalid_value",
    ),
    message(
        {"role": "assistant", "function_call": {}}, "messages.0.function_call.name", "required",
        "missing_required_parameter",
    ),
    Case(
        "two limits",
        json.dumps(chat_body(max_tokens=1, max_completion_tokens=2)).encode(),
        "max_completion_tokens", "max_tokens", "invalid_value",
    ),
    Case(
        "obfuscation",
        json.dumps(chat_body(stream=True, stream_options={"include_obfuscation": True})).encode(),
        "obfuscation is not available", "stream_options.include_obfuscation", UNSUPPORTED,
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
async def test_bad_body_is_rejected(gateway: Gateway, case: Case) -> None:
    """Status, format, field and reason are correct; the service is not called; the next request succeeds."""
    headers = {"content-type": "application/json", **case.headers}
    answer = await gateway.http.post("/v1/chat/completions", content=case.content, headers=headers)
    assert answer.status_code == case.status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"]
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert (error["param"], error["code"]) == (case.param, case.code)
    assert case.words in error["message"]
    assert case.param is None or case.param in error["message"]
    assert gateway.service.requests == []
    assert (await gateway.chat()).status_code == 200


async def test_bodies_with_too_many_values_are_rejected_before_parsing() -> None:
    """Excessive numbers of values are rejected before parsing; a long prompt is not."""
    bomb = b'{"model": "m", "messages": [], "prediction": [' + b"[]," * 1_000_000 + b"[]]}"
    with pytest.raises(Failure) as caught:
        OpenAITranslator().parse(HttpRequest(bomb))
    assert "more than 500000 values" in caught.value.message
    prompt = json.dumps(chat_body(messages=[{"role": "user", "content": "some words, " * 100_000}]))
    assert OpenAITranslator().parse(HttpRequest(prompt.encode())).request.messages[0].content[0].text


async def test_duplicate_key_is_found_in_linear_time() -> None:
    """The last of very many keys is a duplicate, which a quadratic comparison would not find in the test's time."""
    keys = ",".join(f'"{i}":0' for i in range(90_000))
    body = b'{"model": "m", "messages": [], "prediction": {%b,"89999":0}}' % keys.encode()
    with pytest.raises(Failure, match="duplicate key '89999'"):
        OpenAITranslator().parse(HttpRequest(body))


async def test_large_body_without_length_is_rejected(gateway: Gateway) -> None:
    """Bytes are counted if no length is declared."""

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(10):
            yield b" " * (MAX_BODY_BYTES // 4)

    headers = {"content-type": "application/json"}
    answer = await gateway.http.post("/v1/chat/completions", content=pieces(), headers=headers)
    assert answer.status_code == 413
    assert str(MAX_BODY_BYTES) in answer.json()["error"]["message"]
    assert (await gateway.chat()).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/chat/completions", 405, "method_not_supported"),
        ("POST", "/v1/models", 405, "method_not_supported"),
        ("DELETE", "/v1/models/a", 405, "method_not_supported"),
        ("POST", "/v1/chat/completion", 404, None),
        ("GET", "/v1", 404, None),
        ("POST", "/", 405, "method_not_supported"),
    ],
)
async def test_wrong_route_is_rejected(gateway: Gateway, method: str, path: str, status: int, code: str | None) -> None:
    """Unknown paths get 404 and wrong methods 405 with Allow, in OpenAI's format and naming the request."""
    answer = await gateway.http.request(method, path)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", code)
    assert f"{method} {path}" in error["message"]
    assert ("allow" in answer.headers) == (status == 405)


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("Bearer ä".encode(), "Bearer \\xc3\\xa4"),
        (b"Bearer a\tb", "Bearer a\\tb"),
        (b"Bearer " + b"k" * 20_000, "Bearer " + "k" * 5993),
    ],
)
async def test_credential_invalid_in_grpc_metadata_is_rejected_as_unknown(
    gateway: Gateway, given: bytes, sent: str
) -> None:
    """Such a credential reaches the service in an invalid form, so that it is rejected as unknown, not as missing."""
    answer = await gateway.http.post("/v1/chat/completions", json=chat_body(), headers={b"authorization": given})
    assert answer.status_code == 200
    assert gateway.service.metadata[0]["authorization"] == sent
