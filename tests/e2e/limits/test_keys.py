"""API keys in the whole product: hidden models, changes of keys, and a flood of invalid keys."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import grpc
import httpx
import pytest
from google.rpc import error_details_pb2, status_pb2
from sluice.v1 import chat_pb2, chat_pb2_grpc, content_pb2, model_pb2, model_pb2_grpc

from service.auth.keys.key import new_key
from tests.e2e.guarded import AZURE, CHAT, CHAT_PATH, HIDDEN, MESSAGES, MODEL, NOBODYS, Guarded, error_body
from tests.waiting import GUARD_S


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tokenize", {"prompt": "a"}),
        ("/v1/tokenize", {"messages": MESSAGES}),
        ("/detokenize", {"tokens": [1]}),
        ("/v1/responses/input_tokens", {"input": "a"}),
    ],
)
def test_tokenization_requires_the_scope_tokenize(guarded: Guarded, path: str, body: dict[str, Any]) -> None:
    """The scope generate does not include the scope tokenize."""
    fields = {"model": MODEL, **body}
    answer = guarded.post(path, fields, authorization=f"Bearer {guarded.keys['operator']}")
    assert (answer.status_code, error_body(answer)["error"]["message"]) == (403, "the key lacks the scope tokenize")
    assert guarded.post(path, fields, authorization=f"Bearer {guarded.keys['team']}").status_code == 200


def test_hidden_model_looks_unknown_in_every_dialect(guarded: Guarded) -> None:
    """A hidden model is not listed, and requests for it get the same response as for an unknown model."""
    key = guarded.keys["team"]
    assert [each["id"] for each in guarded.get("/v1/models", key).json()["data"]] == [MODEL]
    endpoints = guarded.get("/api/2.0/serving-endpoints", key).json()["endpoints"]
    assert HIDDEN not in [each["name"] for each in endpoints]
    assert HIDDEN in guarded.get("/v1/models", guarded.keys["operator"]).text
    for path, body in (
        ("/v1/chat/completions", {"model": "NAME", "messages": MESSAGES}),
        ("/v1/completions", {"model": "NAME", "prompt": "a"}),
        ("/v1/embeddings", {"model": "NAME", "input": "a"}),
        ("/v1/rerank", {"model": "NAME", "query": "a", "documents": ["b"]}),
        ("/score", {"model": "NAME", "text_1": "a", "text_2": "b"}),
        ("/v1/responses", {"model": "NAME", "input": "a"}),
        ("/v1/messages", {"model": "NAME", "messages": MESSAGES, "max_tokens": 4}),
        ("/v1/messages/count_tokens", {"model": "NAME", "messages": MESSAGES}),
        ("/v1/responses/input_tokens", {"model": "NAME", "input": "a"}),
        ("/tokenize", {"model": "NAME", "prompt": "a"}),
        ("/tokenize", {"model": "NAME", "messages": MESSAGES}),
        ("/detokenize", {"model": "NAME", "tokens": [1]}),
        ("/openai/deployments/NAME/embeddings?api-version=2024-10-21", {"input": "a"}),
        ("/serving-endpoints/NAME/invocations", {"input": "a"}),
        (f"/models/embeddings{AZURE}", {"model": "NAME", "input": ["a"]}),
        ("/v2/models/NAME/generate", {"text_input": "a"}),
        ("/v1/models/NAME", None),
        ("/v2/models/NAME", None),
        ("/v2/models/NAME/ready", None),
        ("/api/2.0/serving-endpoints/NAME", None),
    ):
        responses = []
        for name in (HIDDEN, NOBODYS):
            named = path.replace("NAME", name)
            if body is None:
                answer = guarded.get(named, key)
            else:
                fields = json.loads(json.dumps(body).replace("NAME", name))
                answer = guarded.post(named, fields, authorization=f"Bearer {key}")
            same = answer.text.replace(name, "NAME").replace(answer.headers["x-request-id"], "ID")
            responses.append((answer.status_code, same))
        assert responses[0] == responses[1], path
        assert responses[0][0] == 404, path


def test_endpoint_changes_require_their_scope(guarded: Guarded) -> None:
    """A key that may read endpoints may not change them."""
    entity = {"name": "a", "entity_name": MODEL, "entity_version": "1"}
    routes = [{"served_model_name": "a", "traffic_percentage": 100}]
    body = {"name": "made", "config": {"served_entities": [entity], "traffic_config": {"routes": routes}}}
    path = "/api/2.0/serving-endpoints"
    refused = guarded.post(path, body, authorization=f"Bearer {guarded.keys['team']}")
    assert (refused.status_code, refused.json()["error_code"]) == (403, "PERMISSION_DENIED")
    made = guarded.post(path, body, authorization=f"Bearer {guarded.keys['operator']}")
    assert made.status_code == 200


def reason_of(error: Any) -> str:
    """Return the reason in the details of a call's error."""
    status = status_pb2.Status.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"])
    info = error_details_pb2.ErrorInfo()
    assert any(each.Unpack(info) for each in status.details)
    reason: str = info.reason
    return reason


def test_grpc_through_envoy_needs_a_key(guarded: Guarded) -> None:
    """Invalid keys get UNAUTHENTICATED or PERMISSION_DENIED with their reasons; a valid key is served."""
    part = content_pb2.ContentPart(text="Hello!")
    message = content_pb2.Message(role=content_pb2.ROLE_USER, content=[part])
    request = chat_pb2.ChatRequest(model=MODEL, messages=[message], stopping={"max_tokens": 4})
    with grpc.insecure_channel(f"127.0.0.1:{guarded.stack.ports['envoy']}") as channel:
        stub: Any = chat_pb2_grpc.ChatServiceStub(channel)
        assert stub.Chat(request, metadata=(("x-api-key", guarded.keys["team"]),), timeout=GUARD_S).choices
        for metadata, code, reason in (
            ((), "UNAUTHENTICATED", "MISSING_KEY"),
            ((("authorization", f"Bearer {new_key('team')}"),), "UNAUTHENTICATED", "INVALID_KEY"),
            ((("api-key", guarded.keys["past"]),), "UNAUTHENTICATED", "EXPIRED_KEY"),
            ((("api-key", guarded.keys["gone"]),), "UNAUTHENTICATED", "DISABLED_KEY"),
            ((("api-key", guarded.keys["embedder"]),), "PERMISSION_DENIED", "SCOPE_MISSING"),
        ):
            for ask in (stub.Chat, lambda *given, **rest: list(stub.StreamChat(*given, **rest))):
                with pytest.raises(grpc.RpcError) as caught:
                    ask(request, metadata=metadata, timeout=GUARD_S)
                assert (caught.value.code().name, reason_of(caught.value)) == (code, reason)


def test_keys_are_created_rotated_and_revoked_without_a_restart(guarded: Guarded) -> None:
    """A key is created, rotated and revoked without a restart; its running stream continues."""
    key = guarded.command("create", "--id", "guest", "--scope", "generate")["key"]

    def status(key: str) -> int:
        return guarded.post(CHAT_PATH, CHAT, authorization=f"Bearer {key}").status_code

    def until(key: str, expected: int) -> None:
        while status(key) != expected:
            pass  # the test's own time limit ends it

    until(key, 200)
    rotated = guarded.command("rotate", "guest", "--overlap", "0m")["key"]
    until(rotated, 200)
    assert status(key) == 401
    body = CHAT | {"stream": True, "max_tokens": 400, "ignore_eos": True}
    headers = {"authorization": f"Bearer {rotated}"}
    with httpx.stream("POST", guarded.base + CHAT_PATH, json=body, headers=headers, timeout=GUARD_S) as answer:
        lines = answer.iter_lines()
        next(lines)
        guarded.command("revoke", "guest")
        until(rotated, 401)
        assert [line for line in lines if line][-1] == "data: [DONE]"


@pytest.mark.long
def test_flood_of_invalid_keys_affects_no_valid_key(guarded: Guarded) -> None:
    """Ten thousand invalid keys are rejected, and a valid key gets the same answers at the same time.

    The flood stays below Envoy's request rate per address; otherwise Envoy would reject it, and the valid key's
    requests too.
    """
    body = CHAT | {"temperature": 0, "max_tokens": 32}
    good = {"authorization": f"Bearer {guarded.keys['team']}"}
    alone = guarded.post(CHAT_PATH, body, **good).json()["choices"]
    codes: list[str] = []

    def flood() -> None:
        with grpc.insecure_channel(f"127.0.0.1:{guarded.stack.ports['envoy']}") as channel:
            stub: Any = model_pb2_grpc.ModelServiceStub(channel)
            for _ in range(100):
                time.sleep(50 / 450)  # so that both stay below 1,000 per second, even after a delay
                wrong = (("authorization", f"Bearer {new_key('team')}"),)
                calls = [stub.ListModels.future(model_pb2.ListModelsRequest(), metadata=wrong) for _ in range(50)]
                codes.extend(call.code().name for call in calls)

    floods = [threading.Thread(target=flood) for _ in range(2)]
    for each in floods:
        each.start()
    while any(each.is_alive() for each in floods):
        assert guarded.post(CHAT_PATH, body, **good).json()["choices"] == alone
    assert codes == ["UNAUTHENTICATED"] * 10_000


def test_logs_have_neither_keys_nor_queries(guarded: Guarded) -> None:
    """No log line of the service or the gateway has a key or a query string."""
    key = guarded.keys["team"]
    guarded.get(f"/v1/models?api-key={key}&secret=in-the-query", key)
    guarded.get(f"/nowhere?secret=in-the-query&api-key={key}", key)
    guarded.stack.wait_for("gateway", '"path":"/nowhere"')
    own = [line for line in guarded.stack.output.splitlines() if not line.startswith("envoy")]
    assert not [line for line in own if key in line or "in-the-query" in line]
    assert any('"key":"team"' in line for line in own)
