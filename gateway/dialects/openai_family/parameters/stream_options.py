"""Stream options of OpenAI's family."""

from __future__ import annotations

import enum

import msgspec
from sluice.v1.chat_pb2 import ChatRequest
from sluice.v1.completion_pb2 import CompleteRequest
from sluice.v1.serving_pb2 import ServingOptions

from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.output_interval import check_interval


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    """Options of a stream; rejected in requests without streaming.

    `continuous_usage_stats` is vLLM's, and sent by benchmarks; as there, it needs `include_usage`. `output_interval_ms`
    is this server's: 0 requests an event for each token.
    """

    include_usage: bool | None = None
    include_obfuscation: bool | None = None
    continuous_usage_stats: bool | None = None
    output_interval_ms: int | None = None


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
    check_interval(options.output_interval_ms, "stream_options.output_interval_ms")
    if not options.include_usage:
        return StreamedUsage.NONE
    return StreamedUsage.EVERY if options.continuous_usage_stats else StreamedUsage.LAST


def request_usage(
    request: ChatRequest | CompleteRequest, options: StreamOptions | None, *, stream: bool | None
) -> StreamedUsage:
    """Return the requested usage, and request token counts if each chunk has it, and separate tokens.

    Raise Failure for unsupported options.
    """
    usage = streamed_usage(options, stream=stream)
    if usage is StreamedUsage.EVERY:
        request.tokens.SetInParent()
    separate_tokens(request.serving, options)
    return usage


def separate_tokens(serving: ServingOptions, options: StreamOptions | None) -> None:
    """Request an event for each token if the options do."""
    if options is not None and options.output_interval_ms == 0:
        serving.separate_tokens = True
