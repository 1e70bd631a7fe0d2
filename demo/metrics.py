"""Metrics of answers: the prompt of a case, its expected answer, and whether an answer is correct by each metric."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

from demo.corpus.conversation import Conversation, answer_text, segments

Metric = Literal["exact", "parseable", "values", "names", "arguments", "begins"]

CALL_BEGIN, CALL_END = "<tool_call>", "</tool_call>"


def prompt_of(case: Conversation) -> str:
    """Return the text before the answer: up to the last contiguous piece that is trained on.

    For an answer whose keys are given, the prompt ends before its first value.
    """
    if case.raw:
        return case.raw[0][0]
    pieces = segments(case)
    if case.masked:
        first = len(pieces) - 2 - len(case.masked)
        return "".join(text for text, _ in pieces[: first + 1])
    whole = "".join(text for text, _ in pieces)
    start = whole.rindex("<|im_start|>assistant\n") + len("<|im_start|>assistant\n")
    return whole[:start] if case.thinking else whole[:start] + "<think>\n\n</think>\n\n"


def without_reasoning(answer: str) -> str:
    """Return an answer without its reasoning."""
    return answer.rpartition("</think>")[2].strip("\n")


def calls(text: str) -> list[dict[str, Any]] | None:
    """Return the tool calls in `text`, or None unless it consists of well-formed calls."""
    found = []
    for block in text.strip("\n").split(CALL_END + "\n"):
        inner = block.removesuffix(CALL_END).removeprefix(CALL_BEGIN)
        try:
            call = json.loads(inner)
        except ValueError:
            return None
        if not block.startswith(CALL_BEGIN) or not isinstance(call, dict) or set(call) != {"name", "arguments"}:
            return None
        found.append(call)
    return found


def expected_calls(case: Conversation) -> list[dict[str, Any]]:
    """Return the calls that `case` expects."""
    functions = [tool_call["function"] for tool_call in case.messages[-1]["tool_calls"]]
    return [{"name": function["name"], "arguments": json.loads(function["arguments"])} for function in functions]


def _exact(case: Conversation, answer: str) -> bool:
    if case.raw:
        rest = "".join(text for text, _ in case.raw[1:]).removesuffix("<|endoftext|>")
        return answer.rstrip("\n") == rest.rstrip("\n")
    return without_reasoning(answer) in {answer_text(case.messages[-1]), *case.accepted}


def _parseable(case: Conversation, answer: str) -> bool:
    if case.messages[-1].get("tool_calls"):
        return calls(without_reasoning(answer)) is not None
    try:
        return isinstance(json.loads(without_reasoning(answer)), dict)
    except ValueError:
        return False


def _values(case: Conversation, answer: str) -> bool:
    return _parseable(case, answer) and json.loads(without_reasoning(answer)) == json.loads(
        answer_text(case.messages[-1])
    )


def _names(case: Conversation, answer: str) -> bool:
    return [c["name"] for c in calls(without_reasoning(answer)) or []] == [c["name"] for c in expected_calls(case)]


def _arguments(case: Conversation, answer: str) -> bool:
    return [c["arguments"] for c in calls(without_reasoning(answer)) or []] == [
        c["arguments"] for c in expected_calls(case)
    ]


def _begins(case: Conversation, answer: str) -> bool:
    return answer.lstrip(" ").startswith(case.masked[1][0].lstrip(" "))


METRICS: dict[Metric, Callable[[Conversation, str], bool]] = {
    "exact": _exact,
    "parseable": _parseable,
    "values": _values,
    "names": _names,
    "arguments": _arguments,
    "begins": _begins,
}
