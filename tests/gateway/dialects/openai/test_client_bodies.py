"""Requests in the form in which programs send them that have no test with the program itself: none is rejected."""

from __future__ import annotations

import inspect
import json
from typing import Any

import msgspec
import pytest
from openai.resources import chat, completions, embeddings, responses

from gateway.dialects.ollama.chat import OllamaChatTranslator
from gateway.dialects.ollama.generate import OllamaGenerateTranslator
from gateway.dialects.openai.chat import ChatCompletionBody, OpenAITranslator
from gateway.dialects.openai.completion import OpenAICompletionBody, OpenAICompletionTranslator
from gateway.dialects.openai.embedding import OpenAIEmbeddingBody
from gateway.dialects.openai_family.responses.body import ResponseBody
from gateway.dialects.seam.http_request import HttpRequest

OF_CALLS = {"self", "extra_headers", "extra_query", "extra_body", "timeout"}
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "ls", "description": "", "parameters": {"type": "object"}},
}
CALL = {"id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
HISTORY: list[dict[str, Any]] = [
    {"role": "system", "content": [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}]},
    {"role": "user", "content": "What is here?"},
    {"role": "assistant", "content": "", "reasoning_content": "Look.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c", "name": "ls", "content": "a.py"},
    {"role": "user", "content": [{"type": "text", "text": "And now?"}]},
]
CHATS: dict[str, dict[str, Any]] = {
    "Aider": {
        "stream": True,
        "temperature": 0,
        "stream_options": {"include_usage": True},
        "max_tokens": 9,
        "reasoning_effort": "low",
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    },
    "Continue": {
        "stream": True,
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 1,
        "frequency_penalty": 0,
        "presence_penalty": 0,
        "stop": ["\n\n", "```"],
        "prediction": {"type": "content", "content": "a"},
        "tools": [TOOL],
        "parallel_tool_calls": False,
    },
    "Cline": {"stream": True, "temperature": 0, "stream_options": {"include_usage": True}, "max_tokens": None},
    "crush": {
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 9,
        "user": "u",
        "reasoning_effort": "minimal",
        "parallel_tool_calls": True,
        "tools": [TOOL | {"function": TOOL["function"] | {"strict": False}}],
        "tool_choice": "auto",
        "verbosity": "low",
        "store": False,
        "metadata": {"a": "b"},
        "prompt_cache_key": "k",
        "safety_identifier": "s",
        "service_tier": "auto",
    },
}
OLLAMA_OPTIONS = {
    "temperature": 0.5,
    "top_p": 1,
    "top_k": 20,
    "min_p": 0.1,
    "num_predict": 9,
    "stop": ["a"],
    "num_ctx": 2048,
    "mirostat": 0,
    "num_thread": 2,
    "use_mmap": True,
    "num_gpu": 0,
}
OLLAMA: dict[str, Any] = {"stream": True, "keep_alive": 1800, "options": OLLAMA_OPTIONS}


@pytest.mark.parametrize(
    ("create", "body"),
    [
        (chat.Completions.create, ChatCompletionBody),
        (completions.Completions.create, OpenAICompletionBody),
        (embeddings.Embeddings.create, OpenAIEmbeddingBody),
        (responses.Responses.create, ResponseBody),
    ],
)
def test_every_argument_of_openais_package_is_a_field(create: Any, body: type[msgspec.Struct]) -> None:
    """Those without an effect are rejected by their reason, not as unknown."""
    arguments = set(inspect.signature(inspect.unwrap(create)).parameters) - OF_CALLS
    assert arguments <= {field.encode_name for field in msgspec.structs.fields(body)}


@pytest.mark.parametrize("program", list(CHATS))
def test_chats_of_programs(program: str) -> None:
    """Their fields, and messages with what an earlier answer had."""
    body = {"model": "m", "messages": HISTORY, **CHATS[program]}
    OpenAITranslator().parse(HttpRequest(json.dumps(body).encode()))


def test_completions_of_continue() -> None:
    """A completion of code has the fields of a chat."""
    fields = {name: value for name, value in CHATS["Continue"].items() if "tool" not in name and name != "prediction"}
    body = {"model": "m", "prompt": "def f", **fields}
    OpenAICompletionTranslator().parse(HttpRequest(json.dumps(body).encode()))


def test_ollamas_requests_of_programs() -> None:
    """Continue's and llama-index' chats and generations, with images and tools of earlier messages."""
    call = {"function": {"name": "ls", "arguments": {"path": "."}}}
    messages = [
        {"role": "user", "content": "What is here?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "a.py", "tool_name": "ls"},
    ]
    body = {"model": "m", "messages": messages, "tools": [TOOL], "think": False, "format": "json", **OLLAMA}
    OllamaChatTranslator().parse(HttpRequest(json.dumps(body).encode()))
    generation = {"model": "m", "prompt": "def f", "raw": True, "system": "", "images": [], **OLLAMA}
    OllamaGenerateTranslator().parse(HttpRequest(json.dumps(generation).encode()))
