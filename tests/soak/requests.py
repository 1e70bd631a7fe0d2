"""The requests of every kind of client, and the end of a complete answer to each."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message
from sluice.v1 import (
    chat_pb2,
    chat_pb2_grpc,
    completion_pb2,
    completion_pb2_grpc,
    embedding_pb2,
    embedding_pb2_grpc,
    prompt_pb2,
    rank_pb2,
    rank_pb2_grpc,
    sampling_pb2,
    token_pb2,
    token_pb2_grpc,
)

from tests.service.contract.fakes import user

MODEL = "sluice-demo"
EMBEDDER = "all-minilm-l6-v2"
API_VERSION = "?api-version=2024-05-01-preview"
PROSE = (
    "Now tell me of a river that ran over green stones, past the mill and the wide fields, down to a town by the sea."
)

Dice = random.Random


@dataclass(frozen=True)
class RestRequest:
    """A request over HTTP. `statuses` are the expected ones; `end` is in a stream's last event."""

    path: str
    body: dict[str, Any]
    statuses: tuple[int, ...] = (200,)
    end: str | None = None


@dataclass(frozen=True)
class GrpcRequest:
    """A call: its stub's class, method and message. `code` is the name of the expected status."""

    stub: Callable[[Any], Any]
    method: str
    message: Message
    code: str = "OK"


def text(dice: Dice) -> str:
    """Return a prompt, often a prefix of another one, so that caches are used."""
    return PROSE[: dice.randrange(8, len(PROSE))] + "".join(dice.choices(PROSE, k=dice.randrange(200)))


def messages(dice: Dice) -> list[dict[str, str]]:
    """Return a conversation of one turn."""
    return [{"role": "user", "content": text(dice)}]


def length(dice: Dice) -> int:
    """Return a number of tokens for an answer, mostly small."""
    return min(int(dice.expovariate(1 / 40)) + 1, 400)


def chat(dice: Dice) -> RestRequest:
    """Return a streamed chat in OpenAI's dialect."""
    body = {"model": MODEL, "messages": messages(dice), "max_tokens": length(dice), "stream": True}
    if dice.random() < 0.3:
        body |= {"n": 3, "logprobs": True, "top_logprobs": 5}
    return RestRequest("/v1/chat/completions", body, end="[DONE]")


def chat_whole(dice: Dice) -> RestRequest:
    """Return a whole chat in OpenAI's dialect, sometimes with a JSON schema."""
    body: dict[str, Any] = {"model": MODEL, "messages": messages(dice), "max_tokens": length(dice)}
    if dice.random() < 0.3:
        schema = {"type": "object", "properties": {f"k{dice.randrange(50)}": {"type": "integer"}}}
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}
        body["max_tokens"] += 2  # the shortest matching answer needs two
    return RestRequest("/v1/chat/completions", body)


def tools(dice: Dice) -> RestRequest:
    """Return a chat that must call a tool."""
    function = {
        "name": f"find_{dice.randrange(20)}",
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
    }
    body = {"model": MODEL, "messages": messages(dice), "max_tokens": 60, "stream": True, "tool_choice": "required"}
    return RestRequest(
        "/v1/chat/completions", body | {"tools": [{"type": "function", "function": function}]}, end="[DONE]"
    )


def completion(dice: Dice) -> RestRequest:
    """Return a streamed completion in OpenAI's dialect."""
    body = {"model": MODEL, "prompt": [text(dice), text(dice)], "max_tokens": length(dice), "stream": True}
    return RestRequest("/v1/completions", body, end="[DONE]")


def response(dice: Dice) -> RestRequest:
    """Return a streamed response in OpenAI's dialect."""
    body = {
        "model": MODEL,
        "input": text(dice),
        "max_output_tokens": max(length(dice), 16),
        "stream": True,
        "store": False,
    }
    return RestRequest("/v1/responses", body, end='"response":')


def databricks(dice: Dice) -> RestRequest:
    """Return a whole invocation in Databricks' dialect."""
    body = {"messages": messages(dice), "max_tokens": length(dice), "stream": False}
    return RestRequest(f"/serving-endpoints/{MODEL}/invocations", body)


def azure(dice: Dice) -> RestRequest:
    """Return a streamed chat in Azure's dialect."""
    body = {"model": MODEL, "messages": messages(dice), "max_tokens": length(dice), "stream": True}
    return RestRequest(f"/chat/completions{API_VERSION}", body, end="[DONE]")


def anthropic(dice: Dice) -> RestRequest:
    """Return a streamed message in Anthropic's dialect, sometimes with thinking."""
    body = {"model": MODEL, "messages": messages(dice), "max_tokens": length(dice), "stream": True}
    if dice.random() < 0.3:
        body |= {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}
    return RestRequest("/v1/messages", body, end='"message_stop"')


def cohere(dice: Dice) -> RestRequest:
    """Return a streamed chat in Cohere's dialect."""
    body = {"model": MODEL, "messages": messages(dice), "max_tokens": length(dice), "stream": True}
    return RestRequest("/v2/chat", body, end='"message-end"')


def ollama(dice: Dice) -> RestRequest:
    """Return a streamed chat in Ollama's dialect."""
    body = {"model": MODEL, "messages": messages(dice), "options": {"num_predict": length(dice)}}
    return RestRequest("/api/chat", body, end='"done":true')


def mindie(dice: Dice) -> RestRequest:
    """Return a streamed generation in MindIE's dialect."""
    body = {"text_input": text(dice), "parameters": {"max_new_tokens": length(dice), "do_sample": True}}
    return RestRequest(f"/v2/models/{MODEL}/generate_stream", body, end="text_output")


def embeddings(dice: Dice) -> RestRequest:
    """Return embeddings in OpenAI's dialect."""
    return RestRequest(
        "/v1/embeddings", {"model": EMBEDDER, "input": [text(dice) for _ in range(dice.randrange(1, 9))]}
    )


def invalid(dice: Dice) -> RestRequest:
    """Return one of several invalid bodies, which must be rejected."""
    good = {"model": MODEL, "messages": messages(dice)}
    faults: list[dict[str, Any]] = [
        {"temperature": 9}, {"model": "nobody"}, {"messages": "hi"}, {"max_tokens": -1}, {"nothing": 1},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "colour"}}}},
        {"messages": [{"role": "user", "content": "word " * 5000}]},
    ]  # fmt: skip
    return RestRequest("/v1/chat/completions", good | dice.choice(faults), statuses=(400, 404))


def _chat_message(dice: Dice) -> chat_pb2.ChatRequest:
    stopping = sampling_pb2.StopParams(max_tokens=length(dice))
    return chat_pb2.ChatRequest(model=MODEL, messages=[user(text(dice))], stopping=stopping)


def grpc_stream(dice: Dice) -> GrpcRequest:
    """Return a streamed chat over gRPC."""
    return GrpcRequest(chat_pb2_grpc.ChatServiceStub, "StreamChat", _chat_message(dice))


def grpc_whole(dice: Dice) -> GrpcRequest:
    """Return a whole chat over gRPC."""
    return GrpcRequest(chat_pb2_grpc.ChatServiceStub, "Chat", _chat_message(dice))


def grpc_completion(dice: Dice) -> GrpcRequest:
    """Return a completion of several prompts with logprobs over gRPC."""
    message = completion_pb2.CompleteRequest(model=MODEL, prompts=[prompt_pb2.Prompt(text=text(dice))])
    message.stopping.max_tokens = length(dice)
    return GrpcRequest(completion_pb2_grpc.CompletionServiceStub, "StreamComplete", message)


def grpc_embedding(dice: Dice) -> GrpcRequest:
    """Return an embedding over gRPC."""
    message = embedding_pb2.EmbedRequest(model=EMBEDDER, inputs=[prompt_pb2.Prompt(text=text(dice))])
    return GrpcRequest(embedding_pb2_grpc.EmbeddingServiceStub, "Embed", message)


def grpc_rank(dice: Dice) -> GrpcRequest:
    """Return a ranking of documents by cosine over gRPC."""
    message = rank_pb2.RankRequest(model=EMBEDDER, query=text(dice), documents=[text(dice) for _ in range(3)])
    return GrpcRequest(rank_pb2_grpc.RankServiceStub, "Rank", message)


def grpc_count(dice: Dice) -> GrpcRequest:
    """Return a count of tokens over gRPC."""
    message = token_pb2.CountTokensRequest(text=token_pb2.TokenizeTextRequest(model=MODEL, text=text(dice)))
    return GrpcRequest(token_pb2_grpc.TokenServiceStub, "CountTokens", message)


def grpc_invalid(dice: Dice) -> GrpcRequest:
    """Return an invalid call over gRPC, which must be rejected."""
    message = _chat_message(dice)
    message.sampling.temperature = 9
    return GrpcRequest(chat_pb2_grpc.ChatServiceStub, "StreamChat", message, code="INVALID_ARGUMENT")


REST = (
    chat,
    chat_whole,
    tools,
    completion,
    response,
    databricks,
    azure,
    anthropic,
    cohere,
    ollama,
    mindie,
    embeddings,
    invalid,
)
GRPC = (grpc_stream, grpc_whole, grpc_completion, grpc_embedding, grpc_rank, grpc_count, grpc_invalid)
