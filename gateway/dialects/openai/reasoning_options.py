"""Reasoning options in OpenRouter's form."""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from sluice.v1 import chat_pb2

from gateway.dialects.openai_family.chat.body import EFFORTS
from gateway.dialects.seam.contract_limit import put
from gateway.dialects.seam.failure import Failure

_DEFAULT_EFFORT: Final = chat_pb2.REASONING_EFFORT_MEDIUM  # if only `enabled` is given
_NONE: Final = chat_pb2.REASONING_EFFORT_NONE


class ReasoningOptions(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An effort or a number of tokens; `exclude` keeps the reasoning out of the answer."""

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    max_tokens: int | None = None
    enabled: bool | None = None
    exclude: bool | None = None

    def put(self, request: chat_pb2.ChatRequest) -> None:
        """Set the request's effort and budget. Raise Failure for contradictory options."""
        given = [name for name in ("effort", "max_tokens") if getattr(self, name) is not None]
        if len(given) > 1:
            raise Failure.of_field("reasoning.max_tokens", "can't be combined with reasoning.effort")
        if self.enabled is False and given:
            raise Failure.of_field(f"reasoning.{given[0]}", "can't be combined with reasoning.enabled: false")
        if (given or self.enabled is not None) and request.reasoning_effort:
            raise Failure.of_field("reasoning", "can't be combined with reasoning_effort")
        if self.effort is not None:
            request.reasoning_effort = EFFORTS[self.effort]
        elif self.max_tokens is not None:
            put(request, "reasoning_budget", self.max_tokens, "reasoning.max_tokens")
            request.reasoning_effort = chat_pb2.REASONING_EFFORT_HIGH if self.max_tokens else _NONE
        elif self.enabled is not None:
            request.reasoning_effort = _DEFAULT_EFFORT if self.enabled else _NONE
