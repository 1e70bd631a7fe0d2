"""API keys in every dialect, and in the vendors' own client packages."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import Any

import httpx
import openai
import pytest

from service.auth.keys.key import new_key
from tests.e2e.guarded import AZURE, HIDDEN, MESSAGES, MODEL, Guarded, error_body
from tests.e2e.stack import ROOT
from tests.waiting import GUARD_S


@dataclass(frozen=True)
class Dialect:
    """A request of one platform, and its error bodies."""

    path: str
    body: dict[str, Any]
    unauthorized: dict[str, Any]
    forbidden: dict[str, Any]


def openai_error(message: str, kind: str, code: str | None) -> dict[str, Any]:
    """Return OpenAI's error body."""
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
    "cohere": Dialect(
        "/v2/chat",
        {"model": MODEL, "messages": MESSAGES, "max_tokens": 4},
        {"message": WRONG},
        {"message": SCOPE},
    ),
    "ollama": Dialect(
        "/api/chat",
        {"model": MODEL, "messages": MESSAGES, "options": {"num_predict": 4}},
        {"error": WRONG},
        {"error": SCOPE},
    ),
    "mindie": Dialect(
        f"/v2/models/{MODEL}/generate",
        {"text_input": "Hello", "parameters": {"max_new_tokens": 4}},
        {"error": WRONG, "error_type": "authentication"},
        {"error": SCOPE, "error_type": "permission"},
    ),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("stream", [False, True])
def test_each_dialect_accepts_a_key(guarded: Guarded, dialect: str, stream: bool) -> None:  # noqa: FBT001
    """Any of the three headers works, streamed and unstreamed."""
    dialect_request = DIALECTS[dialect]
    path, body = dialect_request.path, dialect_request.body | ({"stream": True} if stream else {})
    if dialect == "mindie":
        path, body = path + ("_stream" if stream else ""), dialect_request.body
    key = guarded.keys["team"]
    for headers in ({"authorization": f"Bearer {key}"}, {"api-key": key}, {"x-api-key": key}):
        assert guarded.post(path, body, **headers).status_code == 200


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("key", ["nonsense", new_key("team"), new_key("nobody")], ids=["text", "team", "nobody"])
def test_each_dialect_rejects_an_invalid_key(guarded: Guarded, dialect: str, key: str) -> None:
    """The response is 401 in the dialect's shape, with the challenge that HTTP requires."""
    dialect_request = DIALECTS[dialect]
    answer = guarded.post(dialect_request.path, dialect_request.body, authorization=f"Bearer {key}")
    assert (answer.status_code, error_body(answer)) == (401, dialect_request.unauthorized)
    assert answer.headers["www-authenticate"] == 'Bearer realm="sluice", error="invalid_token"'


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_dialect_rejects_a_missing_scope(guarded: Guarded, dialect: str) -> None:
    """The response is 403 in the dialect's shape."""
    dialect_request = DIALECTS[dialect]
    answer = guarded.post(
        dialect_request.path, dialect_request.body, authorization=f"Bearer {guarded.keys['embedder']}"
    )
    assert (answer.status_code, error_body(answer)) == (403, dialect_request.forbidden)
    challenge = 'Bearer realm="sluice", error="insufficient_scope", scope="generate"'
    assert answer.headers["www-authenticate"] == challenge


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_dialect_reports_why_a_key_is_invalid(guarded: Guarded, dialect: str) -> None:
    """The reasons differ for a missing, an expired and a revoked key; a key in the query is ignored."""
    dialect_request = DIALECTS[dialect]
    for headers, text in (
        ({}, "a key is required"),
        ({"authorization": "Basic dTpw"}, "a key is required"),
        ({"api-key": guarded.keys["past"]}, "the key has expired"),
        ({"api-key": guarded.keys["gone"]}, "the key has been revoked"),
    ):
        answer = guarded.post(dialect_request.path, dialect_request.body, **headers)
        assert answer.status_code == 401
        assert text in answer.text
    sign = "&" if "?" in dialect_request.path else "?"
    answer = guarded.post(f"{dialect_request.path}{sign}api-key={guarded.keys['team']}", dialect_request.body)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="sluice"'


@pytest.mark.parametrize("dialect", DIALECTS)
def test_errors_of_a_body_require_a_valid_key(guarded: Guarded, dialect: str) -> None:
    """Without a valid key the error is about the key, whatever the body; with one it is about the body."""
    dialect_request = DIALECTS[dialect]
    for body, kind in (("{", "application/json"), (json.dumps({"wings": 2}), "application/json"), ("a", "text/plain")):

        def send(key: str | None, body: str = body, kind: str = kind) -> httpx.Response:
            headers = {"content-type": kind} | ({} if key is None else {"authorization": f"Bearer {key}"})
            return httpx.post(guarded.base + dialect_request.path, content=body, headers=headers, timeout=GUARD_S)

        wrong, missing, good = send(new_key("team")), send(None), send(guarded.keys["team"])
        assert (wrong.status_code, error_body(wrong)) == (401, dialect_request.unauthorized)
        assert missing.status_code == 401
        assert "www-authenticate" in missing.headers
        assert good.status_code == (415 if kind == "text/plain" else 400)


def test_openais_sdk_raises_its_exceptions_for_invalid_keys(guarded: Guarded) -> None:
    """OpenAI's client works with a valid key, and raises its exceptions for 401 and 403 otherwise."""

    def client(key: str) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{guarded.base}/v1", api_key=key, max_retries=0)

    def ask(key: str) -> Any:
        with client(key) as client_of_key:
            messages: Any = MESSAGES
            return client_of_key.chat.completions.create(model=MODEL, messages=messages, max_tokens=4)

    assert ask(guarded.keys["team"]).choices
    for key in (new_key("team"), guarded.keys["past"], guarded.keys["gone"]):
        with pytest.raises(openai.AuthenticationError) as caught:
            ask(key)
        assert caught.value.code == "invalid_api_key"
    with pytest.raises(openai.PermissionDeniedError):
        ask(guarded.keys["embedder"])
    with client(guarded.keys["team"]) as client_of_key:
        with pytest.raises(openai.NotFoundError) as missing:
            client_of_key.embeddings.create(model=HIDDEN, input="a")
        assert missing.value.code == "model_not_found"
        assert [model.id for model in client_of_key.models.list()] == [MODEL]


# Each vendor's client, in a separate environment: (a script that sends a request, the exceptions for three keys).
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
    "ollama": (
        """
from ollama import Client
def ask(url, key):
    chat = Client(host=url, headers={"authorization": f"Bearer {key}"}).chat
    try:
        chat(model="sluice-demo", options={"num_predict": 4}, messages=[{"role": "user", "content": "Hello!"}])
    except Exception as error:
        raise type(f"{type(error).__name__}{error.status_code}", (Exception,), {})
""",
        ["none", "ResponseError401", "ResponseError403"],
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
def test_vendor_sdks_raise_their_exceptions_for_invalid_keys(guarded: Guarded, vendor: str) -> None:
    """A valid key works; an invalid one and one without the scope raise the client's exceptions for 401 and 403."""
    script, raised = SDKS[vendor]
    keys = [guarded.keys["team"], new_key("team"), guarded.keys["embedder"]]
    python = ROOT / ".venvs" / vendor / "bin" / "python"
    command = [str(python), "-W", "ignore", "-c", script + ASK_WITH_EACH, guarded.base, *keys]
    done = subprocess.run(command, capture_output=True, text=True, timeout=GUARD_S, check=False)
    assert done.stdout.split() == raised, done.stderr
