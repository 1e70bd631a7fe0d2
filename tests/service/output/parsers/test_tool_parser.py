"""Tool calls in text: every family, every cut, and malformed calls."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.generation.outputs.events import Delta, Text
from service.output.families.named_calls import HARMONY, MISTRAL_NAMED
from service.output.families.object_calls import HERMES, LLAMA3, MISTRAL, PLAIN_JSON
from service.output.families.tool_families import SYNTAXES
from service.output.families.tool_syntax import ToolSyntax
from service.output.parsers.tool_parser import ToolCallParser
from tests.service.output.fakes import join
from tests.service.output.families.families import deltas_of

Calls = list[tuple[str, str]]

# (syntax, text, content, calls) with the functions f and g.
CASES: list[tuple[ToolSyntax, str, str, Calls]] = [
    (HERMES, "", "", []),
    (HERMES, "Just text. \n", "Just text. \n", []),
    (HERMES, '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>', "", [("f", '{"a": 1}')]),
    (HERMES, 'Hi.\n<tool_call>{"name":"f","arguments":{}}</tool_call>\nBye. ', "Hi.\nBye. ", [("f", "{}")]),
    (
        HERMES,
        '<tool_call>{"name": "f", "arguments": {"a": "}</tool_call>\\""}}</tool_call>\n<tool_call>{"name": "g"}',
        "",
        [("f", '{"a": "}</tool_call>\\""}'), ("g", "{}")],
    ),
    (HERMES, '<tool_call>\n{"name": "g", "arguments": {"b": [{}]}}\n</tool_call>', "", [("g", '{"b": [{}]}')]),
    (HERMES, '<tool_call>[{"name": "f"}, {"name": "g", "arguments": {}}]</tool_call>', "", [("f", "{}"), ("g", "{}")]),
    (HERMES, '<tool_call>{"id": "1", "arguments": {"x": 0}, "name": "f"}</tool_call>', "", [("f", '{"x": 0}')]),
    (HERMES, '<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>', "", [("f", '{"a": 1}')]),
    (HERMES, '<tool_call>{"arguments": "{}", "name": "f"}</tool_call>', "", [("f", "{}")]),
    (HERMES, '<tool_call>{"name": "f", "arguments": {"a": 1', "", [("f", '{"a": 1')]),
    (HERMES, '<tool_call>{"name": "f", "arguments": {}}', "", [("f", "{}")]),
    (HERMES, '<tool_call>{"name": "f", "arguments": {}}</tool_', "", [("f", "{}")]),
    (HERMES, '<tool_call>{"name": "\\u0066", "arguments": {}}</tool_call>', "", [("f", "{}")]),
    # Without the closing marker, the next call or text begins anyway.
    (
        HERMES,
        '<tool_call>{"name": "f"}<tool_call>{"name": "g"}</tool_call>',
        "",
        [("f", "{}"), ("g", "{}")],
    ),
    # Malformed calls are content, character by character.
    (HERMES, "a < b <tool_cal <", "a < b <tool_cal <", []),
    (HERMES, "<tool_call>", "<tool_call>", []),
    (HERMES, " \n<tool_call>\n nonsense</tool_call>", " \n<tool_call>\n nonsense</tool_call>", []),
    (
        HERMES,
        '<tool_call>{"name": "h", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "h", "arguments": {}}</tool_call>',
        [],
    ),
    (HERMES, '<tool_call>{"name": "f", "arguments": 1}', '<tool_call>{"name": "f", "arguments": 1}', []),
    (HERMES, '<tool_call>{"name": "f", "arguments": "x"}', '<tool_call>{"name": "f", "arguments": "x"}', []),
    (  # half of a surrogate pair has no UTF-8
        HERMES,
        '<tool_call>{"name": "f", "arguments": "{\\"a\\": \\"\\ud800\\"}"}',
        '<tool_call>{"name": "f", "arguments": "{\\"a\\": \\"\\ud800\\"}"}',
        [],
    ),
    (HERMES, '<tool_call>{"name": "f", "name": "f"}', '<tool_call>{"name": "f", "name": "f"}', []),
    (HERMES, '<tool_call>{"nam": "f"}', '<tool_call>{"nam": "f"}', []),
    (HERMES, '<tool_call>{"name" "f"}', '<tool_call>{"name" "f"}', []),
    (HERMES, '<tool_call>{"name": "\\x"}', '<tool_call>{"name": "\\x"}', []),
    (HERMES, "<tool_call>{}</tool_call>", "<tool_call>{}</tool_call>", []),
    (HERMES, "<tool_call>[]</tool_call>", "<tool_call>[]</tool_call>", []),
    (HERMES, '<tool_call>{"arguments": {"a": 1}}</tool_call>', '<tool_call>{"arguments": {"a": 1}}</tool_call>', []),
    (HERMES, '<tool_call><tool_call>{"name": "f"}</tool_call>', "<tool_call>", [("f", "{}")]),
    (HERMES, '<tool_call>{"name": "f", "arguments": {}} x</tool_call>', " x</tool_call>", [("f", "{}")]),
    (HERMES, '<tool_call>{"name": "f", "arguments": {}}</tool_call>!', "!", [("f", "{}")]),
    (
        HERMES,
        '<tool_call>[{"name": "f"}, {"name": "h"}]</tool_call>',
        ', {"name": "h"}]</tool_call>',
        [("f", "{}")],
    ),
    (LLAMA3, '{"name": "f", "parameters": {"a": 1}}', "", [("f", '{"a": 1}')]),
    (LLAMA3, ' \n<|python_tag|>{"name": "f", "parameters": {}}', "", [("f", "{}")]),
    (LLAMA3, '{"name": "f", "parameters": {}}; {"name": "g", "parameters": {}}\n', "", [("f", "{}"), ("g", "{}")]),
    (LLAMA3, '{"type": "function", "name": "f", "parameters": {}}', "", [("f", "{}")]),
    (LLAMA3, '{"name": "f", "parameters": {}} done', " done", [("f", "{}")]),
    (LLAMA3, '{"name": "f", "parameters": {}}; or', "; or", [("f", "{}")]),
    (LLAMA3, '<|python_tag|>print("x")', '<|python_tag|>print("x")', []),
    (LLAMA3, 'Say {"name": "f", "parameters": {}}', 'Say {"name": "f", "parameters": {}}', []),
    (MISTRAL, '[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}]', "", [("f", '{"a": 1}')]),
    (
        MISTRAL,
        'ok [TOOL_CALLS] [{"name": "f", "arguments": {}}, {"name": "g", "arguments": {}}]\n',
        "ok",
        [("f", "{}"), ("g", "{}")],
    ),
    (MISTRAL, "[TOOL_CALLS]f{}", "[TOOL_CALLS]f{}", []),
    (MISTRAL, '[TOOL_CALLS][{"name": "f"}, ', "", [("f", "{}")]),
    (MISTRAL_NAMED, '[TOOL_CALLS]f[ARGS]{"a": 1}', "", [("f", '{"a": 1}')]),
    (
        MISTRAL_NAMED,
        '[TOOL_CALLS]f{"a": 1}[TOOL_CALLS]g[CALL_ID]a1b2c3d4e[ARGS]{}',
        "",
        [("f", '{"a": 1}'), ("g", "{}")],
    ),
    (MISTRAL_NAMED, "[TOOL_CALLS]h[ARGS]{}", "[TOOL_CALLS]h[ARGS]{}", []),
    (MISTRAL_NAMED, "[TOOL_CALLS]f\n[ARGS]{}", "", [("f", "{}")]),
    (MISTRAL_NAMED, "[TOOL_CALLS]" + "f" * 300, "[TOOL_CALLS]" + "f" * 300, []),
    (PLAIN_JSON, ' {"name": "f", "arguments": {}}', "", [("f", "{}")]),
    (PLAIN_JSON, '[{"name": "f", "parameters": {"a": 1}}, {"name": "g"}]', "", [("f", '{"a": 1}'), ("g", "{}")]),
    (PLAIN_JSON, '{"name": "f"}\n{"name": "g"}', "", [("f", "{}"), ("g", "{}")]),
    (PLAIN_JSON, '{"city": "Oslo"}', '{"city": "Oslo"}', []),
    (PLAIN_JSON, '{"name": "Ada", "born": 1815}', '{"name": "Ada", "born": 1815}', []),
    (PLAIN_JSON, "[1, 2]", "[1, 2]", []),
    (PLAIN_JSON, "Oslo, then.", "Oslo, then.", []),
]
IDS = [f"{syntax.name}-{index}" for index, (syntax, *_) in enumerate(CASES)]


def parse(syntax: ToolSyntax, text: str, cuts: Iterable[int] = ()) -> list[Delta]:
    return deltas_of(syntax, text, {"f": {}, "g": {}}, cuts)


@pytest.mark.parametrize(("syntax", "text", "content", "calls"), CASES, ids=IDS)
def test_parser_finds_calls_and_keeps_the_rest(syntax: ToolSyntax, text: str, content: str, calls: Calls) -> None:
    """Calls become calls, and everything else is content, exactly."""
    assert join(parse(syntax, text)) == ("", content, calls)


@pytest.mark.parametrize(("syntax", "text", "content", "calls"), CASES, ids=IDS)
def test_parser_result_does_not_depend_on_cuts(syntax: ToolSyntax, text: str, content: str, calls: Calls) -> None:
    """A text gives the same result if it is cut in two or (short texts) in three parts, or to single characters."""
    cuts: list[Iterable[int]] = [[cut] for cut in range(len(text) + 1)]
    cuts.append(range(len(text)))
    if len(text) < 60:
        cuts += [[first, second] for first in range(len(text)) for second in range(first, len(text))]
    for cut in cuts:
        assert join(parse(syntax, text, cut)) == ("", content, calls)


FRAGMENTS = [
    *("<tool_call>", "</tool_call>", "<|python_tag|>", "[TOOL_CALLS]", "[ARGS]", "<tool", "[TOO", "f", "h", " ", "\n"),
    *('{"name": "f", "arguments": {"a": 1}}', '{"name": "g", "parameters": {}}', '{"name": "h"}', '{"name": "f"', "{}"),
    *("[", "]", "{", "}", ",", ";", '"', "\\", '"arguments": {', '"name": "f"', "text", "é"),
]
MARKERS = sorted({marker for syntax in SYNTAXES.values() for marker in syntax.markers})
WRITTEN = [
    *(
        *FRAGMENTS,
        "g(",
        "f(a=1)",
        ")",
        "=",
        "'",
        ":",
        "x=",
        "'s'",
        "f\n{}",
        "call:f{",
        "a:1}",
        "to=functions.f",
        "json",
    ),
    *("functions.f:0", "function", "analysis", "final", "commentary", "a</arg_key>", "```", "f>", "a>1"),
]


def fragments_of(syntax: ToolSyntax) -> st.SearchStrategy[list[str]]:
    """Return fragments of the family's own texts, and of others."""
    return st.lists(st.sampled_from([*syntax.markers * 4, *WRITTEN, *MARKERS]), max_size=16)


@given(syntax=st.sampled_from(list(SYNTAXES.values())), data=st.data())
@settings(max_examples=300)
def test_parser_is_chunk_invariant_and_points_at_its_content(syntax: ToolSyntax, data: st.DataObject) -> None:
    """For any text, cuts change nothing, and each content delta is the text at its position, in order."""
    text = "".join(data.draw(fragments_of(syntax)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    whole, cut = parse(syntax, text), parse(syntax, text, cuts)
    assert join(whole) == join(cut)
    position = 0
    for delta in cut:
        if isinstance(delta, Text):
            assert delta.start >= position
            position = delta.start + len(delta.text)
            assert text[delta.start : position] == delta.text


@pytest.mark.slow
@given(syntax=st.sampled_from([syntax for syntax in SYNTAXES.values() if syntax is not HARMONY]), data=st.data())
@settings(max_examples=300)
def test_parser_loses_nothing_of_a_text_without_calls(syntax: ToolSyntax, data: st.DataObject) -> None:
    """If there is no call, the content is the whole text."""
    text = "".join(data.draw(fragments_of(syntax)))
    _, content, calls = join(parse(syntax, text))
    if not calls:
        assert content == text


@given(
    arguments=st.dictionaries(
        st.text(max_size=5), st.none() | st.text(max_size=20) | st.lists(st.text(max_size=5)), max_size=3
    )
)
@settings(max_examples=50)
def test_arguments_are_returned_as_they_were_written(arguments: dict[str, object]) -> None:
    """The text of any JSON object is preserved exactly."""
    written = json.dumps(arguments, ensure_ascii=False)
    text = f'<tool_call>\n{{"name": "f", "arguments": {written}}}\n</tool_call>'
    assert join(parse(HERMES, text, range(len(text)))) == ("", "", [("f", written)])


def test_arguments_are_emitted_while_they_arrive() -> None:
    """The name comes with the first brace of the arguments, and each further character at once."""
    parser = ToolCallParser(HERMES, {"f": {}})
    assert parser.feed('<tool_call>{"name": "f", "arguments": ') == []
    assert join(parser.feed('{"a')) == ("", "", [("f", '{"a')])
    assert [delta.text for delta in parser.feed('": 1') if not isinstance(delta, Text)] == ['": 1']  # type: ignore[union-attr]
    assert parser.num_held == 0


def test_content_is_not_held_back_longer_than_needed() -> None:
    """Text that can't begin a call is emitted at once; a possible marker and white space before one wait."""
    parser = ToolCallParser(HERMES, {"f": {}})
    assert join(parser.feed("one two \n")) == ("", "one two", [])
    assert join(parser.feed("<tool_")) == ("", "", [])
    assert parser.num_held == len(" \n<tool_")
    assert join(parser.feed("x")) == ("", " \n<tool_x", [])


def test_head_of_a_named_call_is_bounded() -> None:
    """Text after the marker that is too long to be a name is emitted instead of held."""
    parser = ToolCallParser(MISTRAL_NAMED, {"f": {}})
    text = "[TOOL_CALLS]" + "f" * 300
    assert join(parser.feed(text)) == ("", text, [])


def test_json_answers_stream_with_a_bare_syntax() -> None:
    """A JSON answer that isn't a call is emitted as soon as its first key shows it."""
    parser = ToolCallParser(PLAIN_JSON, {"f": {}})
    assert join(parser.feed('{"city":')) == ("", '{"city":', [])
