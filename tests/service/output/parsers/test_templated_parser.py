"""Answers are parsed by a tokenizer's own `response_template`, for every cut of the text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from service.generation.outputs.events import Delta, Text
from service.output.parsers.templated_parser import TemplatedParser, check_response_template
from tests.service.output.fakes import join

TEMPLATE: dict[str, Any] = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<bot>",
    "fields": {
        "reasoning_content": {"open": "<mull>", "close": "</mull>", "content": "text"},
        "tool_calls": {
            "open": "<do>",
            "close": "</do>",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close": "<eot>", "content": "text"},
    },
}
FUNCTIONS = {"f": {"type": "object", "properties": {"a": {"type": "integer"}}}}

# (the prompt's end, text, reasoning, content, calls)
CASES = [
    ("<bot>", "Hello.", "", "Hello.", []),
    (
        "<bot>",
        '<mull>hm</mull>Let me.<do>{"name": "f", "arguments": {"a": "1"}}</do>',
        "hm",
        "Let me.",
        [("f", '{"a": 1}')],
    ),
    ("<bot><mull>", "hm</mull>Yes.<eot>", "hm", "Yes.", []),
    ("<bot>", 'So <do>{"name": "other", "arguments": {}}</do>', "", 'So {"name": "other", "arguments": {}}', []),
]


def parse(prompt: str, text: str, cuts: Iterable[int]) -> list[Delta]:
    parser = TemplatedParser(TEMPLATE, FUNCTIONS, prompt)
    deltas: list[Delta] = []
    begin = 0
    for end in [*cuts, len(text)]:
        deltas += parser.feed(text[begin:end])
        begin = end
    return deltas + parser.close()


@pytest.mark.parametrize(("prompt", "text", "reasoning", "content", "calls"), CASES)
def test_answers_are_read_at_every_cut(
    prompt: str, text: str, reasoning: str, content: str, calls: list[tuple[str, str]]
) -> None:
    """Regions become events, calls have arguments of their schemas' types, and content has its position."""
    for cuts in [[], *([cut] for cut in range(len(text) + 1)), range(len(text))]:
        deltas = parse(prompt, text, cuts)
        assert join(deltas) == (reasoning, content, calls)
        assert all(text[each.start :].startswith(each.text) for each in deltas if isinstance(each, Text))


@pytest.mark.parametrize(
    "call",
    [
        '{"name": "f", "arguments": "\\ud800"}',
        '{"name": "f", "arguments": {"b": "\\ud800"}}',
        '{"name": ["f"], "arguments": {}}',
        '{"name": {}, "arguments": {}}',
    ],
)
def test_call_that_cannot_be_sent_is_content(call: str) -> None:
    """Text with half of a surrogate pair has no UTF-8, and a name may be of any type."""
    _, content, calls = join(parse("<bot>", f"So <do>{call}</do>", []))
    assert (content, calls) == (f"So {call}", [])


def test_unreadable_call_is_content() -> None:
    """A call that is not JSON causes no error."""
    _, content, calls = join(parse("<bot>", "So <do>nonsense</do> and on", []))
    assert calls == []
    assert "nonsense" in content
    assert content.endswith("and on")


def test_template_that_transformers_rejects_is_rejected() -> None:
    """A template that transformers rejects is rejected when the model is loaded."""
    check_response_template(TEMPLATE)
    with pytest.raises(ValueError, match="fields"):
        check_response_template({"fields": {}, "start_anchor": "x"})
