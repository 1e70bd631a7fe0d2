"""How much a model is to think.

Owns the way from a request's reasoning effort to the template's switches, a budget of tokens and the state in which the
answer begins. Immutable once made; any thread may call it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sluice.v1 import chat_pb2

from service.engine.constraint_state import ConstraintState
from service.pipeline.reasoning import ReasoningMarkers, Thinking
from service.pipeline.template import ChatTemplate
from service.pipeline.thinking import ReasoningBudgets, ThinkingConstraint, ThinkingTokens

_SWITCHES = ("enable_thinking", "thinking")
_LEVELS = {
    chat_pb2.REASONING_EFFORT_LOW: "low",
    chat_pb2.REASONING_EFFORT_MEDIUM: "medium",
    chat_pb2.REASONING_EFFORT_HIGH: "high",
}


@dataclass(frozen=True, slots=True)
class Effort:
    """What one model makes of the efforts that requests ask for."""

    template: ChatTemplate
    markers: ReasoningMarkers | None
    tokens: ThinkingTokens | None
    budgets: ReasoningBudgets

    @property
    def has_switch(self) -> bool:
        """Whether the template can turn thinking on and off."""
        return any(switch in self.template.variables for switch in _SWITCHES)

    def variables(self, effort: chat_pb2.ReasoningEffort) -> dict[str, Any]:
        """What the template is told."""
        if effort == chat_pb2.REASONING_EFFORT_UNSPECIFIED:
            return {}
        variables: dict[str, Any] = dict.fromkeys(_SWITCHES, effort in _LEVELS)
        if effort in _LEVELS:
            variables["reasoning_effort"] = _LEVELS[effort]
        return {name: value for name, value in variables.items() if name in self.template.variables}

    def thinking(self, prompt: str) -> Thinking:
        """Where the answer to a rendered prompt begins."""
        if self.markers is None:
            return Thinking.OFF
        prompt = prompt.rstrip()
        if prompt.endswith(self.markers.open):
            return Thinking.OPEN
        return Thinking.OFF if prompt.endswith(self.markers.close) else Thinking.MAY_OPEN

    def constrain(
        self, effort: chat_pb2.ReasoningEffort, thinking: Thinking, answer: ConstraintState | None
    ) -> ConstraintState | None:
        """The answer's constraint with what the thinking before it needs; None if all is free."""
        if self.tokens is None or thinking is Thinking.OFF:
            return answer
        budget = self._budget(effort)
        must_open = effort in _LEVELS and self.has_switch
        if answer is None and budget is None and not must_open:
            return None
        return ThinkingConstraint(self.tokens, thinking, budget=budget, answer=answer, must_open=must_open)

    def _budget(self, effort: chat_pb2.ReasoningEffort) -> int | None:
        match effort:
            case chat_pb2.REASONING_EFFORT_NONE:
                return 0  # the template had no switch for it, or the prompt would have closed the thinking
            case chat_pb2.REASONING_EFFORT_LOW:
                return self.budgets.low
            case chat_pb2.REASONING_EFFORT_MEDIUM:
                return self.budgets.medium
            case chat_pb2.REASONING_EFFORT_HIGH:
                return self.budgets.high
            case _:
                return None
