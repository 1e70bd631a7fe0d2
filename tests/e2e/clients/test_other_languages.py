"""gRPC clients that are not Python.

Node's grpc-js with the .proto files, and buf curl with reflection, through Envoy.
"""

import importlib
import json
import subprocess
from typing import Any

import httpx
import pytest
from sluice.v1 import batch_pb2, conversation_pb2, file_pb2

from tests.e2e.stack import ROOT, Stack
from tests.waiting import GUARD_S

MODULES = ROOT / ".cache/npm/node_modules"
QUESTION = "What is the capital of France?"
MODEL = "sluice-demo"
EMBEDDER = "all-minilm-l6-v2"
GREEDY = {"temperature": 0}
SHORT = {"max_tokens": 4}
CHAT = {"model": MODEL, "messages": [{"role": "ROLE_USER", "content": [{"text": QUESTION}]}], "sampling": GREEDY}
PROMPTS = [{"text": "One, two,"}, {"token_ids": {"ids": [5, 6, 7]}}]
COMPLETE = {"model": MODEL, "prompts": PROMPTS, "sampling": GREEDY, "stopping": SHORT}
GENERATE = {"model": MODEL, "text_input": "One, two,", "stopping": SHORT}
INPUT = [{"message": {"role": "ROLE_USER", "content": [{"text": QUESTION}]}}]
RESPOND = {"model": MODEL, "input": INPUT, "sampling": GREEDY}
ENTITIES = [{"name": "a", "model": MODEL, "traffic_percentage": 100}]
CALLS: list[tuple[str, str, dict[str, Any]]] = [
    ("ChatService", "Chat", CHAT),
    ("ChatService", "StreamChat", CHAT),
    ("CompletionService", "Complete", COMPLETE),
    ("CompletionService", "StreamComplete", COMPLETE),
    ("TextGenerationService", "GenerateText", GENERATE),
    ("TextGenerationService", "StreamGenerateText", GENERATE),
    ("ResponseService", "CreateResponse", RESPOND),
    ("ResponseService", "StreamResponse", RESPOND),
    ("EmbeddingService", "Embed", {"model": EMBEDDER, "inputs": [{"text": "a cat"}]}),
    ("RankService", "Rank", {"model": EMBEDDER, "query": "a kitten", "documents": ["a cat", "a dog"]}),
    ("RankService", "Score", {"model": EMBEDDER, "queries": ["a kitten"], "documents": ["a cat"]}),
    ("TokenService", "TokenizeText", {"model": MODEL, "text": QUESTION}),
    ("TokenService", "DetokenizeText", {"model": MODEL, "token_ids": [5, 6, 7]}),
    ("TokenService", "CountTokens", {"chat": CHAT}),
    ("ModelService", "ListModels", {}),
    ("ModelService", "GetModel", {"model": MODEL}),
    ("ModelService", "KeepModel", {"model": MODEL}),
    ("ModelService", "GetLoad", {}),
    ("AdapterService", "ListAdapters", {}),
    ("OperationService", "ListOperations", {}),
    ("QuotaService", "GetUsage", {}),
    ("ReceiptService", "ListReceiptKeys", {}),
    ("EndpointService", "CreateEndpoint", {"name": "from-node", "entities": ENTITIES}),
    ("EndpointService", "UpdateEndpoint", {"name": "from-node", "entities": ENTITIES}),
    ("EndpointService", "GetEndpoint", {"name": "from-node"}),
    ("EndpointService", "ListEndpoints", {}),
    ("EndpointService", "DeleteEndpoint", {"name": "from-node"}),
    ("WatermarkService", "DetectWatermark", {"model": MODEL, "text": "one two three four five six"}),
]
OF_ADMINISTRATORS = [
    *(f"ModelService.{name}" for name in ("LoadModel", "UnloadModel", "SleepModel", "WakeModel")),
    *(f"AdapterService.{name}" for name in ("LoadAdapter", "UnloadAdapter")),
    *(f"OperationService.{name}Operation" for name in ("Get", "Wait", "Cancel")),
]
STORED = [
    each for module in (conversation_pb2, file_pb2, batch_pb2) for each in module.DESCRIPTOR.services_by_name.values()
]
OF_STORE = [
    f"ResponseService.{name}"
    for name in (
        "GetResponse",
        "DeleteResponse",
        "ListInputItems",
        "ReplayResponse",
        "FollowResponse",
        "CancelResponse",
    )
] + [f"{service.name}.{each.name}" for service in STORED for each in service.methods]


@pytest.fixture(scope="module")
def expected(stack: Stack) -> str:
    """Return the greedy answer over REST."""
    body = {"model": MODEL, "temperature": 0, "messages": [{"role": "user", "content": QUESTION}]}
    answer = httpx.post(f"{stack.url}/v1/chat/completions", json=body, timeout=GUARD_S).json()
    return str(answer["choices"][0]["message"]["content"])


@pytest.fixture(scope="module")
def answers(stack: Stack) -> dict[str, dict[str, Any]]:
    """Return the results of grpc-js by method name."""
    lines = [json.dumps({"service": each[0], "method": each[1], "request": each[2]}) for each in CALLS]
    target = f"127.0.0.1:{stack.ports['envoy']}"
    command = ["node", "tests/e2e/clients/rpc_client.mjs", target, "proto", ".cache/protovalidate", str(MODULES)]
    done = subprocess.run(
        command, cwd=ROOT, input="\n".join(lines), capture_output=True, text=True, timeout=GUARD_S, check=False
    )
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    return {each[1]: result for each, result in zip(CALLS, results, strict=True)}


def test_list_of_calls_has_every_method() -> None:
    """The list of calls has every method, except those for administrators and of the store."""
    files = sorted(path.name for path in (ROOT / "proto/sluice/v1").glob("*.proto"))
    modules = [importlib.import_module(f"sluice.v1.{name.removesuffix('.proto')}_pb2") for name in files]
    services = [service for module in modules for service in module.DESCRIPTOR.services_by_name.values()]
    every = sorted(f"{s.name}.{m.name}" for s in services for m in s.methods)
    assert every == sorted([*(f"{service}.{method}" for service, method, _ in CALLS), *OF_ADMINISTRATORS, *OF_STORE])


@pytest.mark.parametrize("method", [method for _, method, _ in CALLS])
def test_node_calls_every_method(method: str, answers: dict[str, dict[str, Any]]) -> None:
    """Each call of grpc-js ends with OK and at least one message."""
    answer = answers[method]
    assert answer["code"] == "OK", answer
    assert answer["messages"]


def test_grpc_js_streams_the_text_of_rest(answers: dict[str, dict[str, Any]], expected: str) -> None:
    """The stream of grpc-js has the text that REST returns."""
    events = answers["StreamChat"]["messages"]
    kinds = [event["event"] for event in events]
    assert (kinds[0], kinds[-1]) == ("started", "completed")
    assert "content_delta" in kinds  # the number depends on the client's speed
    assert "".join(event["content_delta"]["text"] for event in events if event["event"] == "content_delta") == expected


def test_buf_curl_streams_by_reflection(stack: Stack, expected: str) -> None:
    """A client without .proto files streams the same text by server reflection."""
    url = f"{stack.url}/sluice.v1.ChatService/StreamChat"
    command = [str(MODULES / ".bin/buf"), "curl", "--protocol", "grpc", "--http2-prior-knowledge"]
    command += ["-d", json.dumps(CHAT), url]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=GUARD_S, check=False)
    assert done.returncode == 0, done.stderr
    events, rest, decoder = [], done.stdout.strip(), json.JSONDecoder()
    while rest:
        event, end = decoder.raw_decode(rest)
        events.append(event)
        rest = rest[end:].lstrip()
    assert "".join(e.get("contentDelta", {}).get("text", "") for e in events) == expected
