"""Stream options of OpenAI's family."""

from __future__ import annotations

import enum

import msgspec
from sluice.v1.chat_pb2 import ChatRequest
from sluice.v1.completion_pb2 import CompleteRequest

from gateway.dialects.seam.failure import Failure, Reason


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    """Options of a stream; rejected in requests without streaming.

    `continuous_usage_stats` is vLLM's, and sent by benchmarks; as there, it needs `include_usage`.
    """

    include_usage: bool | None = None
    include_obfuscation: bool | None = None
    continuous_usage_stats: bool | None = None


class StreamedUsage(enum.Enum):
    """The chunks of a stream that have usage."""

    NONE = enum.auto()
    LAST = enum.auto()
    EVERY = enum.auto()


def streamed_usage(options: StreamOptions | None, *, stream: bool | None) -> StreamedUsage:
    """Return the requested usage. Raise Failure for unsupported options."""
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
    """Return the requested usage, and request token counts if each chunk has it.

    Raise Failure for unsupported options.
    """
    usage = streamed_usage(options, stream=stream)
    if usage is StreamedUsage.EVERY:
        request.tokens.SetInParent()
    return usage
