"""What callers of every kind send, and how a whole answer of each ends."""

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
    content_pb2,
    embedding_pb2,
    embedding_pb2_grpc,
    prompt_pb2,
    rank_pb2,
    rank_pb2_grpc,
    sampling_pb2,
    token_pb2,
    token_pb2_grpc,
)

MODEL = "sluice-demo"
EMBEDDER = "all-minilm-l6-v2"
API_VERSION = "?api-version=2024-05-01-preview"
PROSE = (
    "Now tell me of a river that ran over green stones, past the mill and the wide fields, down to a town by the sea."
)

Dice = random.Random


@dataclass(frozen=True)
class RestRequest:
    """A request over HTTP. `statuses` are those that answer it; of a stream, `end` is in its last event."""

    path: str
    body: dict[str, Any]
    statuses: tuple[int, ...] = (200,)
    end: str | None = None


@dataclass(frozen=True)
class GrpcRequest:
    """A call: its stub's class, method and message. `code` is the name of the status that ends it."""

    stub: Callable[[Any], Any]
    method: str
    message: Message
    code: str = "OK"


def text(dice: Dice) -> str:
    """A prompt, often the beginning of another one, so that caches have work."""
    return PROSE[: dice.randrange(8, len(PROSE))] + "".join(dice.choices(PROSE, k=dice.randrange(200)))


def messages(dice: Dice) -> list[dict[str, str]]:
    """A conversation of one turn."""
    return [{"role": "user", "content": text(dice)}]


def length(dice: Dice) -> int:
    """Tokens of an answer: mostly few."""
    return min(int(dice.expovariate(1 / 40)) + 1, 400)


def chat(dice: Dice) -> RestRequest:
    """OpenAI's chat, streamed."""
    body = {"model": MODEL, "messages": messages(dice), "max_tokens": length(dice), "stream": True}
    if dice.random() < 0.3:
        body |= {"n": 3, "logprobs": True, "top_logprobs": 5}
    return RestRequest("/v1/chat/completions", body, end="[DONE]")


def chat_whole(dice: Dice) -> RestRequest:
    """OpenAI's chat, whole, sometimes as JSON by a schema."""
    body: dict[str, Any] = {"model": MODEL, "messages": messages(dice), "max_tokens": length(dice)}
    if dice.random() < 0.3:
        schema = {"type": "object", "properties": {f"k{dice.randrange(50)}": {"type": "integer"}}}
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}
        body["max_tokens"] += 2  # room for the shortest answer, which needs two
    return RestRequest("/v1/chat/completions", body)


def tools(dice: Dice) -> RestRequest:
    """A chat that must call a tool."""
    function = {
        "name": f"find_{dice.randrange(20)}",
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
    }
    body = {"model": MODEL, "messages": messages(dice), "max_tokens": 60, "stream": True, "tool_choice": "required"}
    return RestRequest(
        "/v1/chat/completions", body | {"tools": [{"type": "function", "function": function}]}, end="[DONE]"
    )


def completion(dice: Dice) -> RestRequest:
    """OpenAI's completion, streamed."""
    body = {"model": MODEL, "prompt": [text(dice), text(dice)], "max_tokens": length(dice), "stream": True}
    return RestRequest("/v1/completions", body, end="[DONE]")


def response(dice: Dice) -> RestRequest:
    """OpenAI's response, streamed."""
    body = {
        "model": MODEL,
        "input": text(dice),
        "max_output_tokens": max(length(dice), 16),
        "stream": True,
        "store": False,
    }
    return RestRequest("/v1/responses", body, end='"response":')


def databricks(dice: Dice) -> RestRequest:
    """Databricks' invocation, whole."""
    body = {"messages": messages(dice), "max_tokens": length(dice), "stream": False}
    return RestRequest(f"/serving-endpoints/{MODEL}/invocations", body)


def azure(dice: Dice) -> RestRequest:
    """Azure's chat, streamed."""
    body = {"model": MODEL, "messages": messages(dice), "max_tokens": length(dice), "stream": True}
    return RestRequest(f"/chat/completions{API_VERSION}", body, end="[DONE]")


def anthropic(dice: Dice) -> RestRequest:
    """Anthropic's message, streamed, sometimes with thinking."""
    body = {"model": MODEL, "messages": messages(dice), "max_tokens": length(dice), "stream": True}
    if dice.random() < 0.3:
        body |= {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}
    return RestRequest("/v1/messages", body, end='"message_stop"')


def mindie(dice: Dice) -> RestRequest:
    """MindIE's generation, streamed."""
    body = {"text_input": text(dice), "parameters": {"max_new_tokens": length(dice), "do_sample": True}}
    return RestRequest(f"/v2/models/{MODEL}/generate_stream", body, end="text_output")


def embeddings(dice: Dice) -> RestRequest:
    """OpenAI's embeddings."""
    return RestRequest(
        "/v1/embeddings", {"model": EMBEDDER, "input": [text(dice) for _ in range(dice.randrange(1, 9))]}
    )


def invalid(dice: Dice) -> RestRequest:
    """A body that must be refused, in one of several ways."""
    good = {"model": MODEL, "messages": messages(dice)}
    faults: list[dict[str, Any]] = [
        {"temperature": 9}, {"model": "nobody"}, {"messages": "hi"}, {"max_tokens": -1}, {"nothing": 1},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "colour"}}}},
        {"messages": [{"role": "user", "content": "word " * 5000}]},
    ]  # fmt: skip
    return RestRequest("/v1/chat/completions", good | dice.choice(faults), statuses=(400, 404))


def _chat_message(dice: Dice) -> chat_pb2.ChatRequest:
    said = content_pb2.Message(role=content_pb2.ROLE_USER, content=[content_pb2.ContentPart(text=text(dice))])
    stopping = sampling_pb2.StopParams(max_tokens=length(dice))
    return chat_pb2.ChatRequest(model=MODEL, messages=[said], stopping=stopping)


def grpc_stream(dice: Dice) -> GrpcRequest:
    """A streamed chat over gRPC."""
    return GrpcRequest(chat_pb2_grpc.ChatServiceStub, "StreamChat", _chat_message(dice))


def grpc_whole(dice: Dice) -> GrpcRequest:
    """A whole chat over gRPC."""
    return GrpcRequest(chat_pb2_grpc.ChatServiceStub, "Chat", _chat_message(dice))


def grpc_completion(dice: Dice) -> GrpcRequest:
    """A completion of several prompts over gRPC, with their logprobs."""
    message = completion_pb2.CompleteRequest(model=MODEL, prompts=[prompt_pb2.Prompt(text=text(dice))])
    message.stopping.max_tokens = length(dice)
    return GrpcRequest(completion_pb2_grpc.CompletionServiceStub, "StreamComplete", message)


def grpc_embedding(dice: Dice) -> GrpcRequest:
    """A vector over gRPC."""
    message = embedding_pb2.EmbedRequest(model=EMBEDDER, inputs=[prompt_pb2.Prompt(text=text(dice))])
    return GrpcRequest(embedding_pb2_grpc.EmbeddingServiceStub, "Embed", message)


def grpc_rank(dice: Dice) -> GrpcRequest:
    """Documents by their cosines over gRPC."""
    message = rank_pb2.RankRequest(model=EMBEDDER, query=text(dice), documents=[text(dice) for _ in range(3)])
    return GrpcRequest(rank_pb2_grpc.RankServiceStub, "Rank", message)


def grpc_count(dice: Dice) -> GrpcRequest:
    """A count of tokens over gRPC."""
    message = token_pb2.CountTokensRequest(text=token_pb2.TokenizeTextRequest(model=MODEL, text=text(dice)))
    return GrpcRequest(token_pb2_grpc.TokenServiceStub, "CountTokens", message)


def grpc_invalid(dice: Dice) -> GrpcRequest:
    """A call that must be refused."""
    message = _chat_message(dice)
    message.sampling.temperature = 9
    return GrpcRequest(chat_pb2_grpc.ChatServiceStub, "StreamChat", message, code="INVALID_ARGUMENT")


REST = (chat, chat_whole, tools, completion, response, databricks, azure, anthropic, mindie, embeddings, invalid)
GRPC = (grpc_stream, grpc_whole, grpc_completion, grpc_embedding, grpc_rank, grpc_count, grpc_invalid)
