"""Apply a request's reasoning effort.

An effort determines the template's switches, a budget of tokens, and the state in which the answer begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from service.generation.formats.constraint import ReasoningLimit, ReasoningMarkers, ReasoningStart
from service.generation.prompts.conversation import Conversation, ReasoningEffort
from service.prompts.templates.template import ChatTemplate

_SWITCHES = ("enable_thinking", "thinking", "reasoning")  # the names in chat templates
_LEVEL, _BUDGET = "reasoning_effort", "thinking_budget"  # the second is in tokens, -1 for no limit
_LEVELS = frozenset({ReasoningEffort.LOW, ReasoningEffort.MEDIUM, ReasoningEffort.HIGH})

# The default effort: a fixed one, the template's, or, with None, the effort that the client's platform documents.
DefaultEffort: TypeAlias = ReasoningEffort | Literal["template"] | None


@dataclass(frozen=True, slots=True)
class ReasoningBudgets:
    """The number of reasoning tokens for each effort; None is unlimited."""

    low: int | None = 512
    medium: int | None = 4096
    high: int | None = None


@dataclass(frozen=True, slots=True)
class EffortRules:
    """One model's rules for the efforts of requests."""

    template: ChatTemplate
    markers: ReasoningMarkers | None
    budgets: ReasoningBudgets
    default: DefaultEffort = None

    @property
    def can_reason(self) -> bool:
        """True if the model can reason."""
        return self.markers is not None or self.has_switch or _LEVEL in self.template.variables

    def resolve(self, conversation: Conversation) -> ReasoningEffort | None:
        """Return the effort in force; None leaves it to the template."""
        if conversation.reasoning_effort is not None or conversation.continues or not self.can_reason:
            return conversation.reasoning_effort
        if self.default is not None:
            return None if self.default == "template" else self.default
        return conversation.default_effort

    @property
    def has_switch(self) -> bool:
        """True if the template can switch reasoning on and off, or set its level."""
        return any(switch in self.template.variables for switch in (*_SWITCHES, _LEVEL, _BUDGET))

    def variables(self, effort: ReasoningEffort | None) -> dict[str, Any]:
        """Return the template's variables."""
        effort = self._available(effort)
        if effort is None:
            return {}
        variables: dict[str, Any] = dict.fromkeys(_SWITCHES, effort in _LEVELS)
        budget = self._budget(effort)
        variables[_BUDGET] = -1 if budget is None else budget
        if effort in _LEVELS:
            variables[_LEVEL] = effort.value
        return {name: value for name, value in variables.items() if name in self.template.variables}

    def start(self, prompt: str) -> ReasoningStart:
        """Return where the answer to a rendered prompt begins."""
        if self.markers is None:
            return ReasoningStart.NONE
        prompt = prompt.rstrip()
        if prompt.endswith(self.markers.open):
            return ReasoningStart.OPEN
        return ReasoningStart.NONE if prompt.endswith(self.markers.close) else ReasoningStart.MAY_OPEN

    def limit(
        self, effort: ReasoningEffort | None, start: ReasoningStart, *, is_constrained: bool, budget: int | None = None
    ) -> ReasoningLimit | None:
        """Return the limit of the reasoning before an answer; None if it is free.

        `is_constrained` is True if the answer is constrained. `budget` is the request's number of tokens, which
        replaces the effort's.
        """
        if self.markers is None or start is ReasoningStart.NONE:
            return None
        effort = self._available(effort)
        if budget is None or effort is ReasoningEffort.NONE:
            budget = self._budget(effort)
        must_open = (effort in _LEVELS and self.has_switch) or (is_constrained and self.markers.always)
        if not is_constrained and budget is None and not must_open:
            return None
        return ReasoningLimit(self.markers, start, budget, must_open)

    def _available(self, effort: ReasoningEffort | None) -> ReasoningEffort | None:
        """Return the effort; a low one instead of none if the model needs reasoning before every answer."""
        is_impossible = effort is ReasoningEffort.NONE and self.markers is not None and self.markers.always
        return ReasoningEffort.LOW if is_impossible else effort

    def _budget(self, effort: ReasoningEffort | None) -> int | None:
        """Return the number of reasoning tokens of an effort; None is unlimited."""
        match effort:
            case ReasoningEffort.NONE:
                return 0  # the template has no switch for it, or the prompt would have closed the reasoning
            case ReasoningEffort.LOW:
                return self.budgets.low
            case ReasoningEffort.MEDIUM:
                return self.budgets.medium
            case ReasoningEffort.HIGH:
                return self.budgets.high
            case _:
                return None
