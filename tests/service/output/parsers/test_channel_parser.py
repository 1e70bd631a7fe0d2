"""Answers in channels: reasoning, calls and content are the same for every cut of the text."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from service.generation.formats.constraint import ReasoningStart
from service.generation.outputs.events import Delta
from service.output.parsers.channel_parser import ChannelParser
from tests.service.output.fakes import join

NONE, MAY_OPEN, OPEN = ReasoningStart

# (where the answer begins, text, reasoning, content, calls, whether there was reasoning)
CASES = [
    (
        MAY_OPEN,
        "<|channel|>analysis<|message|>a < b<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>",
        "a < b",
        "Yes.",
        [],
    ),
    (
        MAY_OPEN,
        (
            "<|channel|>analysis<|message|>one<|end|><|start|>assistant<|channel|>analysis<|message|>two<|end|>"
            '<|start|>assistant to=functions.f<|channel|>commentary json<|message|> {"a": 1} '
        ),
        "one\n\ntwo",
        "",
        [("f", '{"a": 1} ')],
    ),
    (OPEN, "so<|end|><|start|>assistant<|channel|>final<|message|>Yes.", "so", "Yes.", []),
    (OPEN, "cut off <|en", "cut off <|en", "", []),
    (NONE, " and so on.<|return|>", "", " and so on.", []),
    (MAY_OPEN, "<|channel|>fin", "", "", []),
    (MAY_OPEN, "<|start|>assistant<|message|>Hi", "", "Hi", []),
    (MAY_OPEN, "<|channel|>commentary to=functions.f<|message|>", "", "", [("f", "{}")]),
    (MAY_OPEN, "no header", "", "no header", []),
    (MAY_OPEN, "<|channel|>" + "x" * 600, "", "<|channel|>" + "x" * 600, []),
    (MAY_OPEN, "", "", "", []),
]


def parse(start: ReasoningStart, text: str, cuts: Iterable[int]) -> tuple[ChannelParser, list[Delta]]:
    parser = ChannelParser({"f"}, start)
    deltas: list[Delta] = []
    begin = 0
    for end in [*cuts, len(text)]:
        deltas += parser.feed(text[begin:end])
        begin = end
    return parser, deltas + parser.close()


@pytest.mark.parametrize(("start", "text", "reasoning", "content", "calls"), CASES)
def test_messages_are_read_at_every_cut(
    start: ReasoningStart, text: str, reasoning: str, content: str, calls: list[tuple[str, str]]
) -> None:
    """Headers and markers belong to no event; a cut changes neither the events nor the start of the content."""
    whole, deltas = parse(start, text, [])
    assert join(deltas) == (reasoning, content, calls)
    assert whole.has_reasoned is bool(reasoning)
    for cuts in [*([cut] for cut in range(len(text) + 1)), range(len(text))]:
        parser, deltas = parse(start, text, cuts)
        assert join(deltas) == (reasoning, content, calls)
        assert (parser.content_start, parser.has_reasoned) == (whole.content_start, whole.has_reasoned)


def test_content_starts_after_the_reasoning() -> None:
    """The tokens of the reasoning, including its markers, can be counted."""
    text = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Yes."
    parser, _ = parse(MAY_OPEN, text, [])
    assert parser.content_start == text.index("<|start|>assistant")
