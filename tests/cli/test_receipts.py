"""`sluice receipts`, and `sluice replay` of answers in every dialect of the whole product."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from cli.app import APP
from service.receipts.signing_key import SigningKey, to_jwk
from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

MODEL = "sluice-demo"
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
CHAT: dict[str, Any] = {"model": MODEL, "messages": QUESTION, "receipt": True}
TEXT: dict[str, Any] = {"text_input": "The capital of", "parameters": {"receipt": True, "max_new_tokens": 9}}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]


def sluice(*words: str | Path) -> tuple[int, str]:
    """Run a command in this process, and return its exit code and its output."""
    result = CliRunner().invoke(APP, list(map(str, words)))
    return result.exit_code, result.output


def answered(
    stack: Stack, folder: Path, path: str, body: dict[str, Any], headers: dict[str, str] | None = None
) -> tuple[Path, Path]:
    """Send a request, and return the files of its answer and its body."""
    answer = httpx.post(stack.url + path, json=body, headers=headers, timeout=GUARD_S)
    assert answer.is_success, answer.text
    record, request = folder / "answer", folder / "request.json"
    record.write_text(answer.text)
    request.write_text(json.dumps(body))
    return record, request


@pytest.mark.parametrize(
    ("path", "body", "again"),
    [
        ("/v1/chat/completions", CHAT | {"n": 2}, None),
        ("/v1/chat/completions", CHAT | {"stream": True}, None),
        ("/v1/chat/completions", CHAT | {"tools": TOOLS, "tool_choice": "required"}, None),
        ("/v1/completions", {"model": MODEL, "prompt": ["a", "b"], "receipt": True, "stream": True}, None),
        ("/v1/responses", {"model": MODEL, "input": "Who are you?", "receipt": True, "store": True}, None),
        ("/v1/messages", CHAT | {"max_tokens": 20}, None),
        ("/v1/messages", CHAT | {"max_tokens": 20, "stream": True}, None),
        ("/v2/chat", CHAT, None),
        ("/v2/chat", CHAT | {"stream": True}, None),
        (f"/serving-endpoints/{MODEL}/invocations", {"messages": QUESTION, "receipt": True}, None),
        (f"/v2/models/{MODEL}/generate", TEXT, f"/v2/models/{MODEL}/generate_stream"),
        (f"/v2/models/{MODEL}/generate_stream", TEXT, None),
    ],
)
def test_answer_of_each_dialect_replays_equal(
    stack: Stack, tmp_path: Path, path: str, body: dict[str, Any], again: str | None
) -> None:
    """Whole or streamed, with several choices, tool calls or prompts; without a seed, the server has drawn one."""
    record, request = answered(stack, tmp_path, path, body)
    code, output = sluice("replay", record, request, "--path", again or path, "--url", stack.url)
    assert (code, output[:21]) == (0, "the answers are equal"), output


def test_request_is_sent_again_with_the_headers_that_it_needs(stack: Stack, tmp_path: Path) -> None:
    """Azure's API takes fields that are not its own only with a header."""
    path, header = "/models/chat/completions?api-version=2024-05-01-preview", "extra-parameters: pass-through"
    record, request = answered(stack, tmp_path, path, CHAT, dict([header.split(": ")]))
    words = ("replay", record, request, "--path", path, "--url", stack.url)
    code, output = sluice(*words, "--header", header)
    assert (code, output[:21]) == (0, "the answers are equal"), output
    assert sluice(*words)[0] == 1
    assert "is not NAME:VALUE" in sluice(*words, "--header", "nothing")[1]


def test_answer_of_another_request_is_refused(stack: Stack, tmp_path: Path) -> None:
    """The server compares the request before it computes anything."""
    record, request = answered(stack, tmp_path, "/v1/chat/completions", CHAT)
    request.write_text(json.dumps(CHAT | {"temperature": 0.123}))
    for options in ([], ["--verify-only"]):
        code, output = sluice("replay", record, request, "--url", stack.url, *options)
        assert code == 1
        assert "the request is not the one that it answers" in output


def test_tampered_receipt_is_refused(stack: Stack, tmp_path: Path) -> None:
    """Also if it only comes from another server, or contains none."""
    record, request = answered(stack, tmp_path, "/v1/chat/completions", CHAT)
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(httpx.get(f"{stack.url}/v1/receipt_keys", timeout=GUARD_S).json()))
    assert sluice("replay", record, "--keys", keys, "--verify-only", "--url", stack.url)[0] == 0
    text = record.read_text()
    record.write_text(
        re.sub(r'("receipt":"[\w-]+\.[\w-]{9})(.)', lambda it: it[1] + ("A" if it[2] != "A" else "B"), text)
    )
    code, output = sluice("replay", record, request, "--url", stack.url)
    assert code == 1
    assert "the receipt is invalid: its signature is wrong" in output
    record.write_text(text)
    keys.write_text(json.dumps({"keys": [to_jwk(SigningKey.create(tmp_path / "other.pem").public_key)]}))
    assert "not among the given keys" in sluice("replay", record, "--keys", keys, "--url", stack.url)[1]
    record.write_text("{}")
    assert "contains no receipt" in sluice("replay", record, "--url", stack.url)[1]


def test_receipt_of_a_stored_response_is_read_from_the_store(stack: Stack, tmp_path: Path) -> None:
    body = {"model": MODEL, "input": "Who are you?", "receipt": True, "store": True}
    record, request = answered(stack, tmp_path, "/v1/responses", body)
    response_id = json.loads(record.read_text())["id"]
    code, output = sluice("replay", response_id, request, "--path", "/v1/responses", "--url", stack.url)
    assert (code, output[:21]) == (0, "the answers are equal"), output


def test_stored_response_is_replayed_without_its_request(stack: Stack, tmp_path: Path) -> None:
    """Also one that continues another; one without a receipt is rejected."""
    first = {"model": MODEL, "input": "Who are you?", "receipt": True, "store": True, "top_p": 0.9}
    for _ in range(2):
        record, _ = answered(stack, tmp_path, "/v1/responses", first)
        response_id = json.loads(record.read_text())["id"]
        code, output = sluice("replay", response_id, "--url", stack.url)
        assert (code, output[:21]) == (0, "the answers are equal"), output
        assert sluice("replay", response_id, "--verify-only", "--url", stack.url)[1].startswith("the receipt is valid")
        first |= {"previous_response_id": response_id, "input": "Why?"}
    record, _ = answered(stack, tmp_path, "/v1/responses", first | {"receipt": False})
    answer = httpx.post(f"{stack.url}/v1/responses/{json.loads(record.read_text())['id']}/replay", timeout=GUARD_S)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].endswith("this response has no receipt")


def test_created_key_is_printed_as_a_key_set(tmp_path: Path) -> None:
    """The file is not overwritten, and `public-key` prints the same."""
    file = tmp_path / "key.pem"
    code, output = sluice("receipts", "create-key", file)
    assert code == 0
    assert json.loads(output)["keys"] == [to_jwk(SigningKey.from_file(file).public_key)]
    assert sluice("receipts", "public-key", file) == (0, output)
    assert sluice("receipts", "create-key", file)[0] == 1
