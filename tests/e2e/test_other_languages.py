"""gRPC callers that are not Python: Node's grpc-js by the .proto files, and buf curl by reflection, through Envoy."""

import json
import subprocess

import httpx
import pytest

from tests.e2e.stack import ROOT, Stack

MODULES = ROOT / ".cache/npm/node_modules"
QUESTION = "What is the capital of France?"


@pytest.fixture(scope="module")
def expected(stack: Stack) -> str:
    """The greedy answer over REST."""
    body = {"model": "sluice-demo", "temperature": 0, "messages": [{"role": "user", "content": QUESTION}]}
    answer = httpx.post(f"{stack.door}/v1/chat/completions", json=body, timeout=60).json()
    return str(answer["choices"][0]["message"]["content"])


def test_node_streams(stack: Stack, expected: str) -> None:
    """grpc-js streams the same text event by event."""
    target = f"127.0.0.1:{stack.ports['envoy']}"
    command = ["node", "tests/e2e/chat_client.mjs", target, "proto", ".cache/protovalidate", str(MODULES)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["text"] == expected
    assert answer["kinds"][0] == "started"
    assert answer["kinds"][-1] == "completed"
    assert answer["kinds"].count("contentDelta") > 1


def test_buf_curl_streams_by_reflection(stack: Stack, expected: str) -> None:
    """A command line without any .proto file streams the same text, by the server's reflection."""
    body = {
        "model": "sluice-demo",
        "messages": [{"role": "ROLE_USER", "content": [{"text": QUESTION}]}],
        "sampling": {"temperature": 0},
    }
    url = f"{stack.door}/sluice.v1.ChatService/StreamChat"
    command = [
        str(MODULES / ".bin/buf"),
        "curl",
        "--protocol",
        "grpc",
        "--http2-prior-knowledge",
        "-d",
        json.dumps(body),
        url,
    ]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    events, rest, decoder = [], done.stdout.strip(), json.JSONDecoder()
    while rest:
        event, end = decoder.raw_decode(rest)
        events.append(event)
        rest = rest[end:].lstrip()
    assert "".join(e.get("contentDelta", {}).get("text", "") for e in events) == expected
