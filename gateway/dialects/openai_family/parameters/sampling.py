"""Sampling and stop parameters in the bodies of OpenAI's family.

The names are OpenAI's; parameters that OpenAI doesn't have use the names of other servers. A parameter of the contract
needs one line here: a field of the same name. Ranges are the contract's. Null is equivalent to an absent field.
"""

from __future__ import annotations

from typing import Final

import msgspec
from sluice.v1 import chat_pb2, completion_pb2, response_pb2, sampling_pb2

from gateway.dialects.seam.contract_copy import copy_fields
from gateway.dialects.seam.contract_limit import check_length, put
from gateway.dialects.seam.failure import Failure

CALLER_NAMES: Final = {"sampling": "", "stopping": "", "serving": ""}  # for `caller_name.renamed`


class OpenAINumbers(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The numeric parameters of OpenAI's APIs: responses echo them, and Azure's API has them too."""

    temperature: float | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None


class DrawingBody(OpenAINumbers, kw_only=True):
    """Parameters of sampling and scheduling."""

    top_k: int | None = None
    min_p: float | None = None
    typical_p: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[int, float] | None = None
    allowed_token_ids: list[int] | None = None
    seed: int | None = None
    watermark: bool | None = None
    priority: int | None = None
    cache_salt: str | None = None
    slo_first_token_seconds: float | None = None
    slo_token_seconds: float | None = None
    receipt: bool | None = None
    stream: bool | None = None

    def set_drawing(
        self, request: chat_pb2.ChatRequest | completion_pb2.CompleteRequest | response_pb2.CreateResponseRequest
    ) -> None:
        """Set these fields. Raise Failure for a value outside the contract's types."""
        copy_fields(self, request.sampling, but={"seed"})
        set_seed(request.sampling, self.seed)
        copy_fields(self, request.serving, but=("request_id",))  # vLLM's is no promise that the request is the same


class SamplingBody(DrawingBody, kw_only=True):
    """Further parameters of chats and completions: stop conditions, and the number of choices."""

    max_tokens: int | None = None
    min_tokens: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    n: int | None = None

    def set_sampling(self, request: chat_pb2.ChatRequest | completion_pb2.CompleteRequest) -> None:
        """Set all fields. Raise Failure for a value outside the contract's types."""
        self.set_drawing(request)
        copy_fields(self, request.stopping, but={"stop"})
        if self.stop is not None:
            stop = [self.stop] if isinstance(self.stop, str) else self.stop
            check_length(sampling_pb2.StopParams, "stop", stop, "stop")
            request.stopping.stop.extend(stop)
        put(request, "n", self.n, "n")

    def stop_name(self, path: str) -> str | None:
        """Return the caller's name of the dotted `path` of a stop string, or None; `stop` if it was a single string."""
        if isinstance(self.stop, str) and path.startswith("stopping.stop."):
            return "stop"
        return None


def set_seed(sampling: sampling_pb2.SamplingParams, seed: int | None) -> None:
    """Set the seed. OpenAI's seeds are signed: a negative one counts as its two's complement in 64 bits."""
    if seed is not None and not -(2**63) <= seed < 2**64:
        raise Failure.of_field("seed", f"must be from {-(2**63)} to {2**64 - 1}")
    put(sampling, "seed", None if seed is None else seed % 2**64, "seed")
