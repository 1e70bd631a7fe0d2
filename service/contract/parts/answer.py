"""Convert the fields that the requests and responses of all kinds of generation share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

from google.protobuf import timestamp_pb2
from sluice.v1 import chat_pb2, logprobs_pb2, model_pb2, serving_pb2, usage_pb2

from service.generation.outputs.events import DecodedLogprob, Usage
from service.generation.outputs.output import FinishReason
from service.generation.service_level import ServiceLevel

FINISH_REASONS: Final = {  # the engine's reason → the contract's
    FinishReason.END_OF_TEXT: chat_pb2.FINISH_REASON_STOP,
    FinishReason.STOP_SEQUENCE: chat_pb2.FINISH_REASON_STOP,
    FinishReason.LENGTH: chat_pb2.FINISH_REASON_LENGTH,
    FinishReason.TOOL_CALLS: chat_pb2.FINISH_REASON_TOOL_CALLS,
}


def serving_values(serving: serving_pb2.ServingOptions) -> dict[str, Any]:
    """Return the fields of the value `AnswerRequest` that a request's serving options determine, by name."""
    return {
        "deployment": serving.deployment,
        "priority": serving.priority,
        "cache_salt": serving.cache_salt,
        "truncates": serving.error_behavior == serving_pb2.ERROR_BEHAVIOR_TRUNCATE,
        "separates_tokens": serving.separate_tokens,
        "reports_progress": serving.report_progress,
        "wants_receipt": serving.receipt,
        "keep_s": to_keep_s(serving),
        "service_level": ServiceLevel(
            serving.slo_first_token_seconds if serving.HasField("slo_first_token_seconds") else None,
            serving.slo_token_seconds if serving.HasField("slo_token_seconds") else None,
        ),
    }


def to_keep_s(message: serving_pb2.ServingOptions | model_pb2.KeepModelRequest) -> float | None:
    """Return how long the client wants the model to stay in memory without requests, in seconds; None: the default."""
    if not message.HasField("keep_alive_seconds"):
        return None
    return message.keep_alive_seconds if message.keep_alive_seconds >= 0 else math.inf


def timestamp(epoch_ns: int) -> timestamp_pb2.Timestamp:
    """Return the Timestamp message of an instant in nanoseconds since the Unix epoch."""
    return timestamp_pb2.Timestamp(seconds=epoch_ns // 10**9, nanos=epoch_ns % 10**9)


def usage_message(usage: Usage) -> usage_pb2.Usage:
    """Return the message of a request's token usage."""
    return usage_pb2.Usage(**usage._asdict())


def logprob_messages(logprobs: Iterable[DecodedLogprob]) -> list[logprobs_pb2.TokenLogprob]:
    """Return the messages of tokens with their log probabilities, bytes and text."""
    return [
        logprobs_pb2.TokenLogprob(
            token=each.data.decode(errors="replace"),
            token_id=each.token_id,
            logprob=each.logprob,
            bytes=each.data,
            top_logprobs=logprob_messages(each.top) if each.top else None,
        )
        for each in logprobs
    ]
