"""Keys in the whole product: through Envoy, by gRPC and in every dialect."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import httpx
import openai
import pytest
from google.rpc import error_details_pb2, status_pb2
from sluice.v1 import chat_pb2, chat_pb2_grpc, content_pb2, model_pb2, model_pb2_grpc

from service.auth.key import new_key
from tests.e2e.stack import ROOT, Stack, free_ports

MODEL, HIDDEN, NOBODYS = "sluice-demo", "all-minilm-l6-v2", "nobodys-minilm-0"
MESSAGES = [{"role": "user", "content": "Hello!"}]
AZURE = "?api-version=2024-05-01-preview"


@dataclass(frozen=True)
class Dialect:
    """One platform's way to ask for a text, and to say no."""

    path: str
    body: dict[str, Any]
    unauthorized: dict[str, Any]
    forbidden: dict[str, Any]


def openai_error(message: str, kind: str, code: str | None) -> dict[str, Any]:
    """OpenAI's error body."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


WRONG, SCOPE = "the key is not valid", "the key lacks the scope generate"
DIALECTS = {
    "openai": Dialect(
        "/v1/chat/completions",
        {"model": MODEL, "messages": MESSAGES, "max_tokens": 4},
        openai_error(WRONG, "invalid_request_error", "invalid_api_key"),
        openai_error(SCOPE, "permission_error", None),
    ),
    "databricks": Dialect(
        f"/serving-endpoints/{MODEL}/invocations",
        {"messages": MESSAGES, "max_tokens": 4},
        {"error_code": "UNAUTHENTICATED", "message": WRONG},
        {"error_code": "PERMISSION_DENIED", "message": SCOPE},
    ),
    "azure": Dialect(
        f"/models/chat/completions{AZURE}",
        {"model": MODEL, "messages": MESSAGES, "max_tokens": 4},
        {"error": "Unauthorized", "message": WRONG, "status": 401},
        {"code": "forbidden", "param": None, "error": "Forbidden", "message": SCOPE, "status": 403},
    ),
    "anthropic": Dialect(
        "/v1/messages",
        {"model": MODEL, "messages": MESSAGES, "max_tokens": 4},
        {"type": "error", "error": {"type": "authentication_error", "message": WRONG}},
        {"type": "error", "error": {"type": "permission_error", "message": SCOPE}},
    ),
    "mindie": Dialect(
        f"/v2/models/{MODEL}/generate",
        {"text_input": "Hello", "parameters": {"max_new_tokens": 4}},
        {"error": WRONG, "error_type": "authentication"},
        {"error": SCOPE, "error_type": "permission"},
    ),
}


@dataclass
class Guarded:
    """A running product that asks for keys."""

    stack: Stack
    path: Path
    keys: dict[str, str]

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.stack.ports['envoy']}"

    def post(self, path: str, body: dict[str, Any], **headers: str) -> httpx.Response:
        """The answer to a body."""
        return httpx.post(self.base + path, json=body, headers=headers, timeout=60)

    def get(self, path: str, key: str) -> httpx.Response:
        """The answer to a key."""
        return httpx.get(self.base + path, headers={"authorization": f"Bearer {key}"}, timeout=60)

    def command(self, *arguments: str) -> Any:
        """What `sluice keys` prints as JSON."""
        command = [sys.executable, "-m", "cli", "keys", *arguments, "--file", str(self.path), "--json"]
        return json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=60).stdout)


def told(answer: httpx.Response) -> dict[str, Any]:
    """An error's body, but for the id that only Anthropic's has."""
    return {name: value for name, value in answer.json().items() if name != "request_id"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """The product with the keys of several teams, which `sluice keys` made."""
    path = tmp_path_factory.mktemp("keys") / "keys.yaml"
    running = Guarded(Stack.__new__(Stack), path, {})
    for name, *options in (
        ("team", "--model", "sluice-*"),
        ("operator", "--scope", "generate", "--scope", "embed", "--scope", "endpoints:write", "--scope", "metrics"),
        ("embedder", "--scope", "embed"),
        ("past", "--expires", "2020-01-01"),
        ("gone",),
    ):
        running.keys[name] = running.command("create", "--id", name, *options)["key"]
    running.command("revoke", "gone")
    running.stack = Stack("--keys-file", str(path))
    try:
        running.stack.wait_for("sluice is ready")
        yield running
    finally:
        running.stack.stop()


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("stream", [False, True])
def test_each_dialect_lets_a_key_in(guarded: Guarded, dialect: str, stream: bool) -> None:  # noqa: FBT001
    """By any of the three headers, whole and streamed."""
    asked = DIALECTS[dialect]
    path, body = asked.path, asked.body | ({"stream": True} if stream else {})
    if dialect == "mindie":
        path, body = path + ("_stream" if stream else ""), asked.body
    key = guarded.keys["team"]
    for headers in ({"authorization": f"Bearer {key}"}, {"api-key": key}, {"x-api-key": key}):
        assert guarded.post(path, body, **headers).status_code == 200


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("key", ["nonsense", new_key("team"), new_key("nobody")])
def test_each_dialect_refuses_a_wrong_key(guarded: Guarded, dialect: str, key: str) -> None:
    """With 401 in its own shape, and the challenge that HTTP asks for."""
    asked = DIALECTS[dialect]
    answer = guarded.post(asked.path, asked.body, authorization=f"Bearer {key}")
    assert (answer.status_code, told(answer)) == (401, asked.unauthorized)
    assert answer.headers["www-authenticate"] == 'Bearer realm="sluice", error="invalid_token"'


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_dialect_refuses_a_missing_scope(guarded: Guarded, dialect: str) -> None:
    """With 403 in its own shape."""
    asked = DIALECTS[dialect]
    answer = guarded.post(asked.path, asked.body, authorization=f"Bearer {guarded.keys['embedder']}")
    assert (answer.status_code, told(answer)) == (403, asked.forbidden)
    challenge = 'Bearer realm="sluice", error="insufficient_scope", scope="generate"'
    assert answer.headers["www-authenticate"] == challenge


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tokenize", {"prompt": "a"}),
        ("/v1/tokenize", {"messages": MESSAGES}),
        ("/detokenize", {"tokens": [1]}),
        ("/v1/responses/input_tokens", {"input": "a"}),
    ],
)
def test_tokens_need_their_own_scope(guarded: Guarded, path: str, body: dict[str, Any]) -> None:
    """Which who may generate need not have."""
    asked = {"model": MODEL, **body}
    answer = guarded.post(path, asked, authorization=f"Bearer {guarded.keys['operator']}")
    assert (answer.status_code, told(answer)["error"]["message"]) == (403, "the key lacks the scope tokenize")
    assert guarded.post(path, asked, authorization=f"Bearer {guarded.keys['team']}").status_code == 200


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_dialect_says_why_a_key_is_none(guarded: Guarded, dialect: str) -> None:
    """A missing one, an expired one, a revoked one; a key in the query is none."""
    asked = DIALECTS[dialect]
    for headers, text in (
        ({}, "a key is required"),
        ({"authorization": "Basic dTpw"}, "a key is required"),
        ({"api-key": guarded.keys["past"]}, "the key has expired"),
        ({"api-key": guarded.keys["gone"]}, "the key has been revoked"),
    ):
        answer = guarded.post(asked.path, asked.body, **headers)
        assert answer.status_code == 401
        assert text in answer.text
    sign = "&" if "?" in asked.path else "?"
    answer = guarded.post(f"{asked.path}{sign}api-key={guarded.keys['team']}", asked.body)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="sluice"'


@pytest.mark.parametrize("dialect", DIALECTS)
def test_faults_of_a_body_are_told_to_who_has_a_key(guarded: Guarded, dialect: str) -> None:
    """Whoever has none, or a wrong one, hears of that, whatever the body; who may call hears of the body."""
    asked = DIALECTS[dialect]
    for body, kind in (("{", "application/json"), (json.dumps({"wings": 2}), "application/json"), ("a", "text/plain")):

        def send(key: str | None, body: str = body, kind: str = kind) -> httpx.Response:
            headers = {"content-type": kind} | ({} if key is None else {"authorization": f"Bearer {key}"})
            return httpx.post(guarded.base + asked.path, content=body, headers=headers, timeout=60)

        wrong, missing, good = send(new_key("team")), send(None), send(guarded.keys["team"])
        assert (wrong.status_code, told(wrong)) == (401, asked.unauthorized)
        assert missing.status_code == 401
        assert "www-authenticate" in missing.headers
        assert good.status_code == (415 if kind == "text/plain" else 400)


def test_hidden_model_is_none_in_any_dialect(guarded: Guarded) -> None:
    """It is not listed, and asking for it is answered as asking for one that isn't there."""
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
        heard = []
        for name in (HIDDEN, NOBODYS):
            named = path.replace("NAME", name)
            if body is None:
                answer = guarded.get(named, key)
            else:
                asked = json.loads(json.dumps(body).replace("NAME", name))
                answer = guarded.post(named, asked, authorization=f"Bearer {key}")
            same = answer.text.replace(name, "NAME").replace(answer.headers["x-request-id"], "ID")
            heard.append((answer.status_code, same))
        assert heard[0] == heard[1], path
        assert heard[0][0] == 404, path


def test_changes_of_endpoints_need_their_scope(guarded: Guarded) -> None:
    """Who may look may not change."""
    entity = {"name": "a", "entity_name": MODEL, "entity_version": "1"}
    routes = [{"served_model_name": "a", "traffic_percentage": 100}]
    body = {"name": "made", "config": {"served_entities": [entity], "traffic_config": {"routes": routes}}}
    path = "/api/2.0/serving-endpoints"
    refused = guarded.post(path, body, authorization=f"Bearer {guarded.keys['team']}")
    assert (refused.status_code, refused.json()["error_code"]) == (403, "PERMISSION_DENIED")
    made = guarded.post(path, body, authorization=f"Bearer {guarded.keys['operator']}")
    assert made.status_code == 200


def test_openais_sdk_raises_its_own_errors(guarded: Guarded) -> None:
    """The client that callers have: a good key answers, the others are its exceptions for 401 and 403."""

    def client(key: str) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{guarded.base}/v1", api_key=key, max_retries=0)

    def ask(key: str) -> Any:
        with client(key) as asking:
            messages: Any = MESSAGES
            return asking.chat.completions.create(model=MODEL, messages=messages, max_tokens=4)

    assert ask(guarded.keys["team"]).choices
    for key in (new_key("team"), guarded.keys["past"], guarded.keys["gone"]):
        with pytest.raises(openai.AuthenticationError) as caught:
            ask(key)
        assert caught.value.code == "invalid_api_key"
    with pytest.raises(openai.PermissionDeniedError):
        ask(guarded.keys["embedder"])
    with client(guarded.keys["team"]) as asking:
        with pytest.raises(openai.NotFoundError) as missing:
            asking.embeddings.create(model=HIDDEN, input="a")
        assert missing.value.code == "model_not_found"
        assert [model.id for model in asking.models.list()] == [MODEL]


# What each vendor's client, in an environment of its own, does with a key: (how it asks, what it raises).
SDKS = {
    "azure": (
        """
from azure.ai.inference import ChatCompletionsClient
from azure.ai.inference.models import UserMessage
from azure.core.credentials import AzureKeyCredential
ask = lambda url, key: ChatCompletionsClient(url, AzureKeyCredential(key), retry_total=0).complete(
    messages=[UserMessage("Hello!")], model="sluice-demo", max_tokens=4)
""",
        ["none", "ClientAuthenticationError", "HttpResponseError"],
    ),
    "databricks": (
        """
from databricks.sdk import WorkspaceClient
from databricks.sdk.config import Config
from databricks.sdk.service.serving import ChatMessage, ChatMessageRole
ask = lambda url, key: WorkspaceClient(config=Config(host=url, token=key, retry_timeout_seconds=3)) \\
    .serving_endpoints.query("sluice-demo", messages=[ChatMessage(role=ChatMessageRole.USER, content="Hello!")],
                             max_tokens=4)
""",
        ["none", "Unauthenticated", "PermissionDenied"],
    ),
    "anthropic": (
        """
from anthropic import Anthropic
ask = lambda url, key: Anthropic(base_url=url, api_key=key, max_retries=0).messages.create(
    model="sluice-demo", max_tokens=4, messages=[{"role": "user", "content": "Hello!"}])
""",
        ["none", "AuthenticationError", "PermissionDeniedError"],
    ),
}
ASK_WITH_EACH = """
import sys
for key in sys.argv[2:]:
    try:
        ask(sys.argv[1], key)
        print("none")
    except Exception as error:
        print(type(error).__name__)
"""


@pytest.mark.parametrize("vendor", SDKS)
def test_vendors_clients_raise_their_own_errors(guarded: Guarded, vendor: str) -> None:
    """A good key answers, a wrong one and one without the scope are the client's exceptions for 401 and 403."""
    script, raised = SDKS[vendor]
    keys = [guarded.keys["team"], new_key("team"), guarded.keys["embedder"]]
    python = ROOT / ".venvs" / vendor / "bin" / "python"
    command = [str(python), "-W", "ignore", "-c", script + ASK_WITH_EACH, guarded.base, *keys]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout.split() == raised, done.stderr


def reason_of(error: Any) -> str:
    """The reason in the details of a call's error."""
    status = status_pb2.Status.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"])
    info = error_details_pb2.ErrorInfo()
    assert any(each.Unpack(info) for each in status.details)
    reason: str = info.reason
    return reason


def test_grpc_through_envoy_needs_a_key(guarded: Guarded) -> None:
    """UNAUTHENTICATED and PERMISSION_DENIED with their reasons; a good key is answered."""
    part = content_pb2.ContentPart(text="Hello!")
    message = content_pb2.Message(role=content_pb2.ROLE_USER, content=[part])
    request = chat_pb2.ChatRequest(model=MODEL, messages=[message], stopping={"max_tokens": 4})
    with grpc.insecure_channel(f"127.0.0.1:{guarded.stack.ports['envoy']}") as channel:
        stub: Any = chat_pb2_grpc.ChatServiceStub(channel)
        assert stub.Chat(request, metadata=(("x-api-key", guarded.keys["team"]),), timeout=60).choices
        for metadata, code, reason in (
            ((), "UNAUTHENTICATED", "MISSING_KEY"),
            ((("authorization", f"Bearer {new_key('team')}"),), "UNAUTHENTICATED", "INVALID_KEY"),
            ((("api-key", guarded.keys["past"]),), "UNAUTHENTICATED", "EXPIRED_KEY"),
            ((("api-key", guarded.keys["gone"]),), "UNAUTHENTICATED", "DISABLED_KEY"),
            ((("api-key", guarded.keys["embedder"]),), "PERMISSION_DENIED", "SCOPE_MISSING"),
        ):
            for ask in (stub.Chat, lambda *given, **rest: list(stub.StreamChat(*given, **rest))):
                with pytest.raises(grpc.RpcError) as caught:
                    ask(request, metadata=metadata, timeout=60)
                assert (caught.value.code().name, reason_of(caught.value)) == (code, reason)


def test_keys_change_while_it_serves(guarded: Guarded) -> None:
    """A new key is good, then rotated, then revoked, without a restart; a stream that runs goes on."""
    key = guarded.command("create", "--id", "guest", "--scope", "generate")["key"]
    asked = DIALECTS["openai"]

    def status(key: str) -> int:
        return guarded.post(asked.path, asked.body, authorization=f"Bearer {key}").status_code

    def until(key: str, wanted: int) -> None:
        while status(key) != wanted:
            pass  # the test's own time limit ends it

    until(key, 200)
    rotated = guarded.command("rotate", "guest", "--overlap", "0m")["key"]
    until(rotated, 200)
    assert status(key) == 401
    body = asked.body | {"stream": True, "max_tokens": 400, "ignore_eos": True}
    headers = {"authorization": f"Bearer {rotated}"}
    with httpx.stream("POST", guarded.base + asked.path, json=body, headers=headers, timeout=60) as answer:
        lines = answer.iter_lines()
        next(lines)
        guarded.command("revoke", "guest")
        until(rotated, 401)
        assert [line for line in lines if line][-1] == "data: [DONE]"


def test_flood_of_wrong_keys_harms_nobody(guarded: Guarded) -> None:
    """Ten thousand wrong keys are all refused, and whoever has a good one is answered meanwhile, the same as before."""
    asked = DIALECTS["openai"]
    body = asked.body | {"temperature": 0, "max_tokens": 32}
    good = {"authorization": f"Bearer {guarded.keys['team']}"}
    alone = guarded.post(asked.path, body, **good).json()["choices"]
    codes: list[str] = []

    def flood() -> None:
        with grpc.insecure_channel(f"127.0.0.1:{guarded.stack.ports['envoy']}") as channel:
            stub: Any = model_pb2_grpc.ModelServiceStub(channel)
            for _ in range(100):
                wrong = (("authorization", f"Bearer {new_key('team')}"),)
                calls = [stub.ListModels.future(model_pb2.ListModelsRequest(), metadata=wrong) for _ in range(50)]
                codes.extend(call.code().name for call in calls)

    floods = [threading.Thread(target=flood) for _ in range(2)]
    for each in floods:
        each.start()
    while any(each.is_alive() for each in floods):
        assert guarded.post(asked.path, body, **good).json()["choices"] == alone
    assert codes == ["UNAUTHENTICATED"] * 10_000


def test_logs_have_neither_keys_nor_queries(guarded: Guarded) -> None:
    """Nothing that the service or the gateway printed has a key, or what stood in a query."""
    key = guarded.keys["team"]
    guarded.get(f"/v1/models?api-key={key}&secret=in-the-query", key)
    guarded.get(f"/nowhere?secret=in-the-query&api-key={key}", key)
    guarded.stack.wait_for("gateway", '"path":"/nowhere"')
    own = [line for line in guarded.stack.output.splitlines() if not line.startswith("envoy")]
    assert not [line for line in own if key in line or "in-the-query" in line]
    assert any('"key":"team"' in line for line in own)


def gateway(port: int, target: int, *options: str, host: str = "0.0.0.0") -> subprocess.Popen[str]:  # noqa: S104
    """A gateway, by default one that other machines can reach."""
    command = [sys.executable, "-m", "gateway", "--host", host, "--port", str(port)]
    command += ["--target", f"127.0.0.1:{target}", *options]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def listening(process: subprocess.Popen[str]) -> None:
    """Return when a gateway listens."""
    assert process.stderr is not None
    while "listening" not in process.stderr.readline():
        assert process.poll() is None


def test_metrics_need_their_scope_where_callers_are(guarded: Guarded) -> None:
    """Through Envoy they are an operator's only, by the gateway's word after the service's."""
    assert httpx.get(f"{guarded.base}/metrics").status_code == 401
    refused = guarded.get("/metrics", guarded.keys["team"])
    assert (refused.status_code, refused.json()["error"]["message"]) == (403, "the key lacks the scope metrics")
    assert 'scope="metrics"' in refused.headers["www-authenticate"]
    assert "http_server_request_duration" in guarded.get("/metrics", guarded.keys["operator"]).text


def test_metrics_need_nothing_where_nobody_needs_a_key(stack: Stack) -> None:
    """As before."""
    assert httpx.get(f"http://127.0.0.1:{stack.ports['gateway']}/metrics").status_code == 200


def test_operators_may_have_a_listener_of_their_own(guarded: Guarded) -> None:
    """Metrics, docs and changes of endpoints are there, and no longer where callers are; the rest is in both."""
    callers, operators = free_ports(2)
    process = gateway(callers, guarded.stack.ports["service"], "--admin-port", str(operators), host="127.0.0.1")
    try:
        listening(process)
        headers = {"authorization": f"Bearer {guarded.keys['operator']}"}

        def status(method: str, port: int, path: str) -> int:
            url = f"http://127.0.0.1:{port}{path}"
            return httpx.request(method, url, headers=headers, json={} if method == "POST" else None).status_code

        endpoints = "/api/2.0/serving-endpoints"
        for path in ("/metrics", "/docs", "/openapi.json", "/sluice.binpb"):
            assert (status("GET", callers, path), status("GET", operators, path)) == (404, 200)
        assert (status("POST", callers, endpoints), status("POST", operators, endpoints)) == (405, 400)
        assert status("DELETE", callers, f"{endpoints}/nobodys") == 405
        assert status("DELETE", operators, f"{endpoints}/nobodys") == 404
        assert (status("GET", callers, endpoints), status("GET", operators, endpoints)) == (200, 200)
        assert (status("GET", callers, "/healthz"), status("GET", operators, "/healthz")) == (200, 200)
        assert httpx.get(f"http://127.0.0.1:{operators}/metrics").status_code == 200
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_open_gateway_ends_where_nobody_needs_a_key(stack: Stack) -> None:
    """With one line, as soon as it has asked the service; until then and after it nobody is let in."""
    (port,) = free_ports(1)
    process = gateway(port, stack.ports["service"])
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert errors.splitlines()[-1].startswith("sluice-gateway: host: 0.0.0.0 can be reached from other machines, and ")


def test_open_gateway_serves_who_has_a_key(guarded: Guarded) -> None:
    """Where the service asks for keys, the gateway may listen to everybody."""
    (port,) = free_ports(1)
    process = gateway(port, guarded.stack.ports["service"])
    try:
        listening(process)
        headers = {"authorization": f"Bearer {guarded.keys['team']}"}
        url = f"http://127.0.0.1:{port}/v1/models"
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
            assert MODEL in answer.read().decode()
        assert httpx.get(url, timeout=60).status_code == 401
    finally:
        process.terminate()
        process.communicate(timeout=60)
