"""The dialects: the form of each one's requests, its claims, and the bodies that it must reject."""

from __future__ import annotations

import httpx

from conformance import answers, anthropic, constraints, mindie, ollama, open_responses, responses, stored
from conformance.claim import Claim, at, claims_into, hold, items, parsed, shown
from conformance.server import Dialect, Server, Spoiled, first_model

MESSAGES = [{"role": "user", "content": "Count from one to fifty, in words."}]
CHAT = {"messages": MESSAGES, "max_tokens": 32, "temperature": 0}  # greedy, so that observations can be repeated
VERSION = "?api-version=2024-04-01-preview"
LISTS: list[Claim[Server]] = []
claim = claims_into(LISTS)


def _check_openai(answer: httpx.Response) -> None:
    error = at(parsed(answer.text), "error", dict)
    at(error, "type", str)
    for name in ("param", "code"):
        at(error, name, (str, type(None)))
    at(error, "message", str)


def _check_databricks(answer: httpx.Response) -> None:
    body = parsed(answer.text)
    hold(at(body, "error_code", str).isupper(), f"error_code is {shown(body['error_code'])}")
    at(body, "message", str)


def _check_azure(answer: httpx.Response) -> None:
    body = parsed(answer.text)
    at(body, "error", str)
    hold(at(body, "status", int) == answer.status_code, f"status is {shown(body['status'])}")
    hold(answer.headers.get("x-ms-error-code"), "the header x-ms-error-code is missing")
    if answer.status_code == 422:
        at(body, "detail.loc", list)
    at(body, "message", str)


def _azure_model(client: httpx.Client) -> str:
    """Return the model's name from /info."""
    return str(at(parsed(client.get(f"/info{VERSION}").text), "model_name", str))


@claim("models.list", "GET /v1/models lists models with id, object, created and owned_by", "Models", ("openai",))
def _(server: Server) -> str:
    answer = server.get("/v1/models")
    hold(at(answer, "object") == "list", shown(answer))
    for model in items(answer, "data"):
        hold(at(model, "object") == "model" and at(model, "id", str), shown(model))
        at(model, "created", int)
        at(model, "owned_by", str)
    return shown(answer["data"][0])


@claim("models.get", "GET /v1/models/{model} returns one model", "Models", ("openai",))
def _(server: Server) -> str:
    model = server.get(f"/v1/models/{server.model}")
    hold((at(model, "id"), at(model, "object")) == (server.model, "model"), shown(model))
    return shown(model)


@claim("models.list", "GET /api/2.0/serving-endpoints lists endpoints by name", "Serving endpoints", ("databricks",))
def _(server: Server) -> str:
    names = [at(each, "name", str) for each in items(server.get("/api/2.0/serving-endpoints"), "endpoints")]
    hold(server.model in names, f"{server.model} is none of {names}")
    return shown(names)


@claim("models.info", "GET /info returns model_name, model_type and model_provider_name", "Get Info", ("azure",))
def _(server: Server) -> str:
    info = server.get(f"/info{VERSION}")
    for name in ("model_name", "model_type", "model_provider_name"):
        at(info, name, str)
    return shown(info)


CHATS = (*LISTS, *answers.CLAIMS, *constraints.CLAIMS)
NO_NUMBER = Spoiled("type", "A temperature that is not a number", {"temperature": "hot"}, "temperature")
COLD = Spoiled("range", "A negative temperature", {"temperature": -1}, "temperature")
NUCLEUS = Spoiled("top_p", "A top_p above 1", {"top_p": 1.5}, "top_p")
NO_MESSAGES = Spoiled("missing", "A body without messages", {"messages": None}, "messages")
ROLE = Spoiled(
    "role", "A message of an unknown role", {"messages": [{"role": "unknown", "content": "hi"}]}, "messages.role"
)
NO_TOKENS = Spoiled("max_tokens", "max_tokens of 0", {"max_tokens": 0}, "max_tokens")
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
BLOCK = {"messages": [{"role": "user", "content": [{"type": "x"}]}]}
NO_TOOL = {"tools": [{"name": "f", "input_schema": {"type": "object"}}], "tool_choice": {"type": "tool", "name": "g"}}
NO_FUNCTION = Spoiled(
    "tool_choice",
    "A tool_choice of a function that isn't among the tools",
    {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "g"}}},
)
FORMAT = Spoiled(
    "format", "An unknown type of response_format", {"response_format": {"type": "poem"}}, "response_format"
)
SPOILED_CHATS = (NO_MESSAGES, NO_NUMBER, COLD, ROLE, NO_FUNCTION, FORMAT)

OPENAI = Dialect(
    name="openai",
    reference="OpenAI API reference, Chat Completions (platform.openai.com/docs/api-reference/chat)",
    path="/v1/chat/completions",
    good=CHAT,
    streaming={"stream": True},
    claims=CHATS,
    spoiled=(
        *SPOILED_CHATS,
        NUCLEUS,
        NO_TOKENS,
        Spoiled("stop", "A list of stop sequences with a number", {"stop": ["a", 5]}, "stop"),
        Spoiled("logprobs", "top_logprobs above 20", {"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        Spoiled("n", "n of 0", {"n": 0}, "n"),
    ),
    error_form="{error: {message, type, param, code}}",
    check_error=_check_openai,
    find_model=lambda client: first_model(client, "/v1/models", "data", "id"),
    errors="Errors",
)
RESPONSES = Dialect(
    name="responses",
    reference="OpenAI API reference, Responses (platform.openai.com/docs/api-reference/responses)",
    path="/v1/responses",
    good={"input": "Count from one to fifty, in words.", "max_output_tokens": 32, "temperature": 0, "store": False},
    streaming={"stream": True},
    claims=(*responses.CLAIMS, *open_responses.CLAIMS, *stored.CLAIMS),
    spoiled=(
        Spoiled("missing", "A body without input", {"input": None}, "input"),
        NO_NUMBER,
        COLD,
        NUCLEUS,
        Spoiled("role", "A message of an unknown role", {"input": [{"role": "unknown", "content": "hi"}]}, "input"),
        Spoiled("item", "An item of an unknown type", {"input": [{"type": "poem"}]}, "input"),
        Spoiled("format", "An unknown type of text.format", {"text": {"format": {"type": "poem"}}}, "text"),
        Spoiled("tool_choice", "A tool_choice of a function without tools",
                {"tool_choice": {"type": "function", "name": "g"}}, "tool_choice"),
        Spoiled("background", "background without store", {"background": True}, "Background mode"),
    ),
    error_form="{error: {message, type, param, code}}",
    check_error=_check_openai,
    find_model=lambda client: first_model(client, "/v1/models", "data", "id"),
    errors="Errors",
)  # fmt: skip
DATABRICKS = Dialect(
    name="databricks",
    reference="Databricks, Foundation model REST API reference",
    path="/serving-endpoints/{model}/invocations",
    good=CHAT | {"stream": False},
    streaming={"stream": True},
    claims=CHATS,
    spoiled=(*SPOILED_CHATS, NUCLEUS, NO_TOKENS, Spoiled("n", "n of 0", {"n": 0}, "n")),
    error_form="{error_code, message}",
    check_error=_check_databricks,
    find_model=lambda client: first_model(client, "/api/2.0/serving-endpoints", "endpoints", "name", "llm/v1/chat"),
    unsaid=("stream.form", "stream.same", "tools.stream"),
)
AZURE = Dialect(
    name="azure",
    reference="Azure AI Foundry, Reference: Chat Completions",
    path=f"/chat/completions{VERSION}",
    good=CHAT,
    streaming={"stream": True},
    claims=CHATS,
    spoiled=SPOILED_CHATS,
    error_form="{error, message, status}, with 422 detail.loc, too, and the header x-ms-error-code",
    check_error=_check_azure,
    find_model=_azure_model,
    rejection_statuses=(400, 422),
    errors="Responses",
    unsaid=("stream.chunks", "stream.role", "stream.finish", "tools.stream"),
    lost=False,  # the only model answers, regardless of the requested name
)
ANTHROPIC = Dialect(
    name="anthropic",
    reference="Anthropic API reference, Messages (docs.anthropic.com/en/api/messages)",
    path="/v1/messages",
    good=CHAT,
    streaming={"stream": True},
    claims=tuple(anthropic.CLAIMS),
    spoiled=(
        NO_MESSAGES,
        NO_NUMBER,
        COLD,
        NUCLEUS,
        ROLE,
        Spoiled("max_tokens", "A body without max_tokens", {"max_tokens": None}, "max_tokens"),
        Spoiled("tool_choice", "A tool_choice of a tool that isn't among the tools", NO_TOOL),
        Spoiled("block", "A block of an unknown type", BLOCK, "messages.content"),
    ),
    error_form="{type: error, error: {type, message}}",
    check_error=anthropic.check_error,
    find_model=lambda client: first_model(client, "/v1/models", "data", "id"),
    key_header=lambda key: {"x-api-key": key},
    headers={"anthropic-version": "2023-06-01"},
    errors="Errors",
)
_MINDIE_BAD = {
    "max_new_tokens": ("max_new_tokens of 0", 0),
    "temperature": ("A temperature of 0", 0),
    "top_p": ("A top_p above 1", 1.5),
    "top_k": ("A negative top_k", -1),
    "repetition_penalty": ("A repetition_penalty of 0", 0),
    "seed": ("A seed of 0", 0),
    "do_sample": ("A do_sample that is not a boolean", "yes"),
    "batch_size": ("A batch_size of 0", 0),
}
MINDIE = Dialect(
    name="mindie",
    reference="MindIE, text inference: generate_stream",
    path="/v2/models/{model}/generate_stream",
    good={"text_input": "One, two, three,"},
    streaming={},
    claims=tuple(mindie.CLAIMS),
    spoiled=(
        Spoiled("missing", "A body without text_input", {"text_input": None}, "text_input"),
        Spoiled("empty", "An empty text_input", {"text_input": ""}, "text_input"),
        *(
            Spoiled(name, fault, {"parameters": {"do_sample": True, name: value}}, name)
            for name, (fault, value) in _MINDIE_BAD.items()
        ),
    ),
    error_form="{error}",
    check_error=mindie.check_error,
    find_model=mindie.no_model,
    rejection_statuses=(400, 422),
)
OLLAMA = Dialect(
    name="ollama",
    reference="Ollama, API reference (docs/api.md)",
    path="/api/chat",
    good={"messages": MESSAGES, "options": {"num_predict": 32, "temperature": 0}, "stream": False},
    streaming={"stream": True},
    claims=tuple(ollama.CLAIMS),
    spoiled=(
        Spoiled("messages", "Messages that are not a list", {"messages": "hi"}),
        Spoiled("content", "A content that is a number", {"messages": [{"role": "user", "content": 5}]}),
        Spoiled("options", "A temperature that is not a number", {"options": {"temperature": "hot"}}),
        Spoiled("format", "A format that is a number", {"format": 5}),
        Spoiled("tools", "Tools that are not a list", {"tools": "weather"}),
        Spoiled("think", "An unknown level of thinking", {"think": "sideways"}),
    ),
    error_form="{error}",
    check_error=ollama.check_error,
    find_model=lambda client: first_model(client, "/api/tags", "models", "model"),
    errors="Error responses",
    stream_type="application/x-ndjson",
)
DIALECTS = {each.name: each for each in (OPENAI, RESPONSES, DATABRICKS, AZURE, ANTHROPIC, MINDIE, OLLAMA)}
