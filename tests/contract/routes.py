"""Every path of the REST API that takes a body, with a valid body and the format of its dialect's errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from tests.contract.error_bodies import ErrorBody, anthropic, azure, cohere, databricks, ollama, openai, ranking, triton

Body = dict[str, Any]
MODEL = "sluice-demo"
EMBEDDER = "all-minilm-l6-v2"
QUERY = "?api-version=2024-05-01-preview"


@dataclass(frozen=True)
class Route:
    """One path. `valid` is a valid body; `out_of_range` and `wrong_type` change a field of it, which they name.

    `unknown` and `other_task` change it to one for an unknown model or a model of another task, or are other paths;
    `unknown_headers` request an unknown model if a name in the body may be ignored. `streaming` makes the path stream,
    if it can. `images` have input that no served model accepts. `too_many` has one item more than its list may have,
    and the limit.
    """

    path: str
    valid: Body
    read: Callable[[httpx.Response], ErrorBody]
    required: str
    out_of_range: tuple[str, Body]
    wrong_type: tuple[str, Body]
    unknown: Body | str
    too_long: Body | None = None
    other_task: Body | str | None = None
    streaming: Body | None = None
    images: Sequence[Body] = ()
    too_many: tuple[Body, str] | None = None
    statuses: dict[int, int] = field(default_factory=dict)  # 400 → the dialect's status for invalid values
    unknown_headers: Mapping[str, str] = field(default_factory=dict)
    loads: bool = False  # without the required field, the path only loads the model


LONG = "word " * 4000
MESSAGES = [{"role": "user", "content": "Hello!"}]
LONG_MESSAGES = [{"role": "user", "content": LONG}]
HOT = ("temperature", {"temperature": 3})
TEXT_NUMBER = ("temperature", {"temperature": "1"})
WIDE = ("dimensions", {"dimensions": 0})
NO_NUMBER = ("dimensions", {"dimensions": "64"})
STREAM = {"stream": True, "max_tokens": 1500}
MANY_MESSAGES = ({"messages": MESSAGES * 4097}, "4096")
MANY_PROMPTS = ({"prompt": ["One,"] * 257}, "256")
MANY_TEXTS = ({"input": ["a cat"] * 2049}, "2048")
IMAGE = {"type": "image_url", "image_url": {"url": "https://pictures.example/cat.png"}}
IMAGES = [{"messages": [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, IMAGE]}]}]
INPUT_PARTS = [
    {"type": "input_image", "image_url": "https://pictures.example/cat.png"},
    {"type": "input_file", "file_url": "https://papers.example/cats.pdf"},
]


def _chat(path: str, read: Callable[[httpx.Response], ErrorBody], **more: Any) -> Route:
    body = {"model": MODEL, "messages": MESSAGES, "max_tokens": 2}
    more = {"unknown": {"model": "nobody"}, "streaming": STREAM, "other_task": {"model": EMBEDDER}, **more}
    more = {"too_long": {"messages": LONG_MESSAGES}, "images": IMAGES, "too_many": MANY_MESSAGES, **more}
    return Route(path, body, read, "messages", HOT, TEXT_NUMBER, **more)


def _complete(path: str, read: Callable[[httpx.Response], ErrorBody], **more: Any) -> Route:
    body = {"model": MODEL, "prompt": "One, two,", "max_tokens": 2}
    more = {"unknown": {"model": "nobody"}, "streaming": STREAM, "other_task": {"model": EMBEDDER}, **more}
    return Route(path, body, read, "prompt", HOT, TEXT_NUMBER, too_long={"prompt": LONG}, too_many=MANY_PROMPTS, **more)


def _embed(path: str, read: Callable[[httpx.Response], ErrorBody], **more: Any) -> Route:
    body = {"model": EMBEDDER, "input": ["a cat"]}
    more = {
        "out_of_range": WIDE,
        "wrong_type": NO_NUMBER,
        "unknown": {"model": "nobody"},
        "other_task": {"model": MODEL},
        **more,
    }
    return Route(path, body, read, "input", too_long={"input": [LONG]}, too_many=MANY_TEXTS, **more)


def _rerank(path: str) -> Route:
    body = {"model": EMBEDDER, "query": "a kitten", "documents": ["a cat"]}
    wrong_type, too_many = ("top_n", {"top_n": "1"}), ({"documents": ["a cat"] * 2049}, "2048")
    too_long = {"documents": [LONG], "truncation": False}
    more: Any = {"unknown": {"model": "nobody"}, "other_task": {"model": MODEL}, "too_many": too_many}
    return Route(path, body, ranking, "documents", ("top_n", {"top_n": 0}), wrong_type, too_long=too_long, **more)


def _score(path: str) -> Route:
    body = {"model": EMBEDDER, "text_1": "a kitten", "text_2": ["a cat"]}
    wrong_type, too_many = ("text_1", {"text_1": 5}), ({"text_2": ["a cat"] * 2049}, "2048")
    out_of_range = ("max_tokens_per_doc", {"max_tokens_per_doc": 0})
    more: Any = {"unknown": {"model": "nobody"}, "other_task": {"model": MODEL}, "too_many": too_many}
    return Route(path, body, ranking, "text_2", out_of_range, wrong_type, too_long={"text_2": [LONG]}, **more)


def _message(path: str, **more: Any) -> Route:
    """Return a path of Anthropic's dialect; `more` has the differences of the shorter body of a count."""
    body = {"model": MODEL, "messages": MESSAGES, "max_tokens": 2}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    document = {"type": "document", "source": {"type": "url", "url": "https://papers.example/cats.pdf"}}
    given = {
        "out_of_range": ("temperature", {"temperature": 1.5}),
        "wrong_type": TEXT_NUMBER,
        "unknown": {"model": "nobody"},
        "too_long": {"messages": LONG_MESSAGES},
        "other_task": {"model": EMBEDDER},
        "streaming": STREAM,
        "images": [{"messages": [{"role": "user", "content": [block]}]} for block in (image, document)],
        "too_many": MANY_MESSAGES,
    }
    route = Route(path, body, anthropic, "messages", **(given | more))
    if path.endswith("count_tokens"):
        del route.valid["max_tokens"]
    return route


def _respond(path: str, read: Callable[[httpx.Response], ErrorBody]) -> Route:
    body = {"model": MODEL, "input": "Hello!", "max_output_tokens": 2}
    return Route(
        path,
        body,
        read,
        "input",
        HOT,
        TEXT_NUMBER,
        {"model": "nobody"},
        {"input": LONG},
        {"model": EMBEDDER},
        {"stream": True, "max_output_tokens": 1500},
        [{"input": [{"role": "user", "content": [part]}]} for part in INPUT_PARTS],
        ({"input": MESSAGES * 4097}, "4096"),
    )


def _text_tensor(text: str, name: str = "text_input") -> list[Body]:
    """Return the tensors of one text."""
    return [{"name": name, "datatype": "BYTES", "shape": [1], "data": [text]}]


def _generate(path: str) -> Route:
    body = {"text_input": "One, two,", "parameters": {"max_new_tokens": 2}}
    return Route(
        f"/v2/models/{MODEL}/{path}",
        body,
        triton,
        "text_input",
        ("parameters.temperature", {"parameters": {"temperature": 0}}),
        ("parameters.temperature", {"parameters": {"temperature": "1"}}),
        f"/v2/models/nobody/{path}",
        {"text_input": LONG},
        f"/v2/models/{EMBEDDER}/{path}",
        {"parameters": {"max_new_tokens": 1500}} if path == "generate_stream" else None,
    )


def _invoke(make: Callable[..., Route], model: str, other: str, **more: Any) -> Route:
    """Return a path of Databricks' dialect with the model's name in it."""
    path = "/serving-endpoints/{}/invocations"
    route = make(path.format(model), databricks, unknown=path.format("nobody"), other_task=path.format(other), **more)
    del route.valid["model"]
    return route


_BASE = "/serving-endpoints"
_UNPROCESSABLE = {400: 422}
_LOST: Any = {"unknown": {}, "unknown_headers": {"azureml-model-deployment": "nobody"}}  # the model is ignored

ROUTES = [
    _chat("/v1/chat/completions", openai),
    _complete("/v1/completions", openai),
    _embed("/v1/embeddings", openai),
    _respond("/v1/responses", openai),
    replace(_respond("/v1/responses/input_tokens", openai), too_long=None, streaming=None),
    Route(
        "/tokenize",
        {"model": MODEL, "messages": MESSAGES},
        openai,
        "messages",
        out_of_range=("chat_template_kwargs", {"chat_template_kwargs": {"tools": 1}}),
        wrong_type=("add_generation_prompt", {"add_generation_prompt": "yes"}),
        unknown={"model": "nobody"},
        other_task={"model": EMBEDDER},
        images=IMAGES,
        too_many=MANY_MESSAGES,
    ),
    _message("/v1/messages"),
    _message(
        "/v1/messages/count_tokens",
        out_of_range=("thinking.budget_tokens", {"thinking": {"type": "enabled", "budget_tokens": 10}}),
        wrong_type=("system", {"system": 5}),
        too_long=None,
        streaming=None,
    ),
    _invoke(_chat, MODEL, EMBEDDER),
    _invoke(_complete, MODEL, EMBEDDER),
    _invoke(
        _embed,
        EMBEDDER,
        MODEL,
        out_of_range=("input", {"input": []}),
        wrong_type=("instruction", {"instruction": 5}),
    ),
    _chat(f"{_BASE}/chat/completions", databricks),
    _complete(f"{_BASE}/completions", databricks),
    _embed(f"{_BASE}/embeddings", databricks),
    _respond(f"{_BASE}/responses", databricks),
    _chat(f"/chat/completions{QUERY}", azure, statuses=_UNPROCESSABLE, **_LOST),
    _chat(f"/models/chat/completions{QUERY}", azure, statuses=_UNPROCESSABLE, **_LOST),
    _embed(f"/embeddings{QUERY}", azure, statuses=_UNPROCESSABLE, **_LOST),
    _embed(f"/models/embeddings{QUERY}", azure, statuses=_UNPROCESSABLE, **_LOST),
    _chat("/v2/chat", cohere),
    Route(
        "/v2/embed",
        {"model": EMBEDDER, "texts": ["a cat"]},
        cohere,
        "texts",
        out_of_range=("output_dimension", {"output_dimension": 0}),
        wrong_type=("output_dimension", {"output_dimension": "64"}),
        unknown={"model": "nobody"},
        too_long={"texts": [LONG], "truncate": "NONE"},
        other_task={"model": MODEL},
        too_many=({"texts": ["a cat"] * 2049}, "2048"),
    ),
    Route(
        "/api/chat",
        {"model": MODEL, "messages": MESSAGES, "options": {"num_predict": 2}, "stream": False},
        ollama,
        "messages",
        out_of_range=("options.temperature", {"options": {"temperature": 3}}),
        wrong_type=("options.temperature", {"options": {"temperature": "hot"}}),
        unknown={"model": "nobody"},
        too_long={"messages": [{"role": "user", "content": LONG}], "truncate": False},
        other_task={"model": EMBEDDER},
        streaming={"stream": True, "options": {"num_predict": 1500}},
        too_many=MANY_MESSAGES,
        loads=True,
    ),
    *map(_rerank, ("/v1/rerank", "/v2/rerank", "/rerank")),
    *map(_score, ("/v1/score", "/score")),
    Route(
        f"/v2/models/{MODEL}/infer",
        {"inputs": _text_tensor("One, two,"), "parameters": {"max_tokens": 2}},
        triton,
        "inputs",
        out_of_range=('parameters["temperature"]', {"parameters": {"temperature": 3}}),
        wrong_type=("id", {"id": 5}),
        unknown="/v2/models/nobody/infer",
        too_long={"inputs": _text_tensor(LONG)},
        other_task={"inputs": _text_tensor("a", "query") + _text_tensor("b", "documents"), "parameters": {}},
    ),
    _generate("generate"),
    _generate("generate_stream"),
]
