"""What Open WebUI asks of an Ollama server and of an OpenAI server, as its published source makes the calls.

Its backend sends a key that may be empty, its user in headers, and conversations that it has converted from OpenAI's
form to Ollama's.
"""

from __future__ import annotations

import http.client
import json
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

MODEL: Final = "sluice-demo:latest"  # the tag is added to names without one
ENCODER: Final = "all-minilm-l6-v2:latest"
QUESTION: Final[dict[str, Any]] = {"role": "user", "content": "Hello! Who are you?"}
HEADERS: Final = {
    "Content-Type": "application/json",
    "Authorization": "Bearer ",  # the field of the key is empty
    "X-OpenWebUI-User-Name": "Ada%20L.",
    "X-OpenWebUI-User-Id": "7",
    "X-OpenWebUI-User-Email": "ada@example.com",
    "X-OpenWebUI-User-Role": "admin",
    "X-OpenWebUI-Chat-Id": "c1",
}
TOOL: Final[dict[str, Any]] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Returns the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def call(stack: Stack, method: str, path: str, body: Any = None) -> tuple[int, str, bytes]:
    """Send a request with Open WebUI's headers, and return the status, the content type and the body."""
    address = urlsplit(stack.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=GUARD_S)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), HEADERS)
        response = connection.getresponse()
        return response.status, response.headers["content-type"], response.read()
    finally:
        connection.close()


def answered(stack: Stack, method: str, path: str, body: Any = None) -> Any:
    """Return the JSON of a successful answer. Its client reads nothing whose type isn't JSON."""
    status, media, content = call(stack, method, path, body)
    assert (status, media) == (200, "application/json"), content
    return json.loads(content)


def test_a_connection_is_verified_and_its_models_are_listed(stack: Stack) -> None:
    """The list has each model's id and name, and the times at which those in memory are unloaded."""
    assert answered(stack, "GET", "/api/version")["version"]
    models = {each["model"]: each for each in answered(stack, "GET", "/api/tags")["models"]}
    assert {MODEL, ENCODER} <= set(models)
    assert models[MODEL]["name"] == MODEL
    loaded = {each["name"]: each["expires_at"] for each in answered(stack, "GET", "/api/ps")["models"]}
    assert int(datetime.fromisoformat(loaded[MODEL]).timestamp()) > 0
    assert answered(stack, "POST", "/api/show", {"model": MODEL})["capabilities"]


def test_chats_stream_with_parameters_and_a_second_turn(stack: Stack) -> None:
    """Parameters of the model's page are options; a line without `done` has a piece of the message."""
    options = {"temperature": 0.0, "num_ctx": 4096, "num_predict": 20, "top_k": 40, "use_mmap": True, "stop": ["\n\n"]}
    body = {"model": MODEL, "stream": True, "options": options, "keep_alive": "5m", "messages": [QUESTION]}
    status, media, content = call(stack, "POST", "/api/chat", body)
    assert (status, media) == (200, "application/x-ndjson"), content
    *pieces, last = map(json.loads, content.splitlines())
    text = "".join(each["message"]["content"] for each in pieces)
    assert text
    assert (last["done"], last["eval_count"] > 0, last["prompt_eval_count"] > 0) == (True, True, True)
    again = [QUESTION, {"role": "assistant", "content": text}, {"role": "user", "content": "And now?"}]
    whole = answered(stack, "POST", "/api/chat", {**body, "stream": False, "messages": again})
    assert whole["message"]["content"]


def test_results_of_tools_are_sent_back(stack: Stack) -> None:
    """A call has its index and its id next to the function, and its message has an empty text."""
    called = {"index": 0, "id": "call_1", "function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}
    messages = [
        {"role": "system", "content": "Be brief."},
        QUESTION,
        {"role": "assistant", "tool_calls": [called], "content": ""},
        {"role": "tool", "content": "It is sunny.", "tool_call_id": "call_1"},
    ]
    body = {"model": MODEL, "stream": False, "tools": [TOOL], "messages": messages, "options": {"num_predict": 20}}
    assert answered(stack, "POST", "/api/chat", body)["done"]


def test_titles_have_their_limit_next_to_the_options(stack: Stack) -> None:
    """The limit of a background task stands next to `model`, not in `options`."""
    body = {"model": MODEL, "stream": False, "messages": [QUESTION], "num_predict": 3}
    answer = answered(stack, "POST", "/api/chat", body)
    assert (answer["eval_count"], answer["done_reason"]) == (3, "length")


def test_documents_are_embedded(stack: Stack) -> None:
    body = {"input": ["a cat", "a dog"], "model": ENCODER, "truncate": True}
    assert [len(each) for each in answered(stack, "POST", "/api/embed", body)["embeddings"]] == [384, 384]
    older = answered(stack, "POST", "/api/embeddings", {"model": ENCODER, "prompt": "a cat"})
    assert len(older["embedding"]) == 384


def test_a_model_is_unloaded_and_errors_are_texts(stack: Stack) -> None:
    """The text of an error is shown to the user as it is."""
    unload = answered(stack, "POST", "/api/generate", {"model": MODEL, "prompt": "", "keep_alive": 0})
    assert unload["done"]
    for method, path, body, status, text in (
        ("POST", "/api/chat", {"model": "nobody:latest", "messages": [QUESTION]}, 404, "nobody"),
        ("POST", "/api/pull", {"model": "llama3"}, 400, "sluice serve"),
        ("DELETE", "/api/delete", {"model": MODEL}, 400, "not deleted"),
        ("GET", "/api/unknown", None, 404, "/api/unknown"),
    ):
        found, media, content = call(stack, method, path, body)
        assert (found, media) == (status, "application/json"), content
        assert text in json.loads(content)["error"]


def test_an_openai_connection(stack: Stack) -> None:
    """Models, a stream with usage, a title, a result of a tool, and embeddings."""
    assert MODEL.removesuffix(":latest") in {each["id"] for each in answered(stack, "GET", "/v1/models")["data"]}
    body = {"model": "sluice-demo", "messages": [QUESTION], "temperature": 0.0, "max_tokens": 20}
    streamed = {**body, "stream": True, "stream_options": {"include_usage": True}}
    status, media, content = call(stack, "POST", "/v1/chat/completions", streamed)
    assert (status, media.partition(";")[0]) == (200, "text/event-stream"), content
    events = [line.removeprefix("data: ") for line in content.decode().splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    assert json.loads(events[-2])["usage"]["completion_tokens"] > 0
    title = {"model": "sluice-demo", "messages": [QUESTION], "stream": False, "max_completion_tokens": 3}
    assert answered(stack, "POST", "/v1/chat/completions", title)["choices"][0]["finish_reason"] == "length"
    function = {"name": "get_weather", "arguments": '{"city": "Oslo"}'}
    called = {"index": 0, "id": "call_1", "type": "function", "function": function}
    messages = [
        QUESTION,
        {"role": "assistant", "content": "", "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "call_1", "content": "It is sunny."},
    ]
    assert answered(stack, "POST", "/v1/chat/completions", {**body, "messages": messages, "tools": [TOOL]})
    vectors = answered(stack, "POST", "/v1/embeddings", {"input": ["a cat", "a dog"], "model": "all-minilm-l6-v2"})
    assert [len(each["embedding"]) for each in vectors["data"]] == [384, 384]
