"""Reasoning options in the forms of OpenRouter, Qwen (`enable_thinking`), and DeepSeek, GLM and Kimi (`thinking`)."""

from __future__ import annotations

from typing import Final, Literal, Protocol

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


class Thinking(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Whether to reason, and with how many tokens. `clear_thinking` and `keep` have no effect."""

    type: Literal["enabled", "disabled"]
    budget_tokens: int | None = None
    clear_thinking: bool | None = None
    keep: str | None = None


class ThinkingBody(Protocol):
    """A body with the fields of models' vendors."""

    reasoning: ReasoningOptions | None
    thinking: Thinking | None
    enable_thinking: bool | None
    thinking_budget: int | None


def set_thinking(body: ThinkingBody, request: chat_pb2.ChatRequest) -> None:
    """Set the request's effort and budget. Whether to reason takes precedence over an effort. Raise Failure."""
    given = [name for name in ("thinking", "enable_thinking", "thinking_budget") if getattr(body, name) is not None]
    if not given:
        return
    if body.reasoning is not None:
        raise Failure.of_field(given[0], "can't be combined with reasoning")
    budget, path = _budget(body)
    enabled = body.enable_thinking if body.thinking is None else body.thinking.type == "enabled"
    if body.enable_thinking not in {None, enabled}:
        raise Failure.of_field("thinking", "contradicts enable_thinking")
    if enabled is False and budget:
        raise Failure.of_field(path, "can't be combined with disabled thinking")
    if budget is not None:
        put(request, "reasoning_budget", budget, path)
        request.reasoning_effort = chat_pb2.REASONING_EFFORT_HIGH if budget else _NONE
    elif not enabled:
        request.reasoning_effort = _NONE
    elif request.reasoning_effort in {chat_pb2.REASONING_EFFORT_UNSPECIFIED, _NONE}:
        request.reasoning_effort = _DEFAULT_EFFORT


def _budget(body: ThinkingBody) -> tuple[int | None, str]:
    """Return the number of reasoning tokens, and the field that has it. Raise Failure if there are two."""
    inner = None if body.thinking is None else body.thinking.budget_tokens
    if inner is None:
        return body.thinking_budget, "thinking_budget"
    if body.thinking_budget is not None:
        raise Failure.of_field("thinking_budget", "can't be combined with thinking.budget_tokens")
    return inner, "thinking.budget_tokens"
