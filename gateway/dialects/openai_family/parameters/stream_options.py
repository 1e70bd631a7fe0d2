"""How a stream is sent, as OpenAI's family asks for it."""

from __future__ import annotations

import enum

import msgspec
from sluice.v1.chat_pb2 import ChatRequest
from sluice.v1.completion_pb2 import CompleteRequest

from gateway.dialects.seam.failure import Failure, Reason


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    """Options of a stream; without one they are refused.

    `continuous_usage_stats` is vLLM's, and sent by benchmarks; as there, it needs `include_usage`.
    """

    include_usage: bool | None = None
    include_obfuscation: bool | None = None
    continuous_usage_stats: bool | None = None


class StreamedUsage(enum.Enum):
    """Which chunks of a stream have a usage."""

    NONE = enum.auto()
    LAST = enum.auto()
    EVERY = enum.auto()


def streamed_usage(options: StreamOptions | None, *, stream: bool | None) -> StreamedUsage:
    """What the options ask for. Raises Failure for options that can't be kept."""
    if options is None:
        return StreamedUsage.NONE
    if not stream:
        raise Failure.of_field("stream_options", "only allowed with stream: true")
    if options.include_obfuscation:
        name = "stream_options.include_obfuscation"
        raise Failure.of_field(name, "must be false: obfuscation is not available", Reason.UNSUPPORTED_FIELD)
    if not options.include_usage:
        return StreamedUsage.NONE
    return StreamedUsage.EVERY if options.continuous_usage_stats else StreamedUsage.LAST


def request_usage(
    request: ChatRequest | CompleteRequest, options: StreamOptions | None, *, stream: bool | None
) -> StreamedUsage:
    """What the options ask for; each chunk's takes the number of its tokens. Raises as `streamed_usage` does."""
    usage = streamed_usage(options, stream=stream)
    if usage is StreamedUsage.EVERY:
        request.tokens.SetInParent()
    return usage
