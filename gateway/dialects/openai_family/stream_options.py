"""How a stream is sent, as OpenAI's family asks for it."""

from __future__ import annotations

import msgspec

from gateway.dialects.seam.failure import Failure, Reason


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    """Options of a stream; without one they are refused.

    `continuous_usage_stats` is vLLM's, and sent by benchmarks; usage is in the last chunk, with it or without.
    """

    include_usage: bool | None = None
    include_obfuscation: bool | None = None
    continuous_usage_stats: bool | None = None


def wants_usage(options: StreamOptions | None, *, stream: bool | None) -> bool:
    """Whether a stream ends with its usage. Raises Failure for options that can't be kept."""
    if options is None:
        return False
    if not stream:
        raise Failure.of_field("stream_options", "only allowed with stream: true")
    if options.include_obfuscation:
        name = "stream_options.include_obfuscation"
        raise Failure.of_field(name, "must be false: obfuscation is not available", Reason.UNSUPPORTED_FIELD)
    return bool(options.include_usage)
