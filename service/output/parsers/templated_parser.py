"""Parse an answer by the tokenizer's `response_template`, which transformers defines and parses.

Its regions are fields of a message: `content`, `reasoning_content` or `thinking`, and `tool_calls`. The import of
transformers takes seconds, so it is deferred until the first such model is loaded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from service.generation.outputs.events import Delta, Reasoning, Text, ToolArguments, ToolCall
from service.output.families.tool_syntax import Schema

_REASONING = frozenset({"reasoning_content", "reasoning", "thinking"})
_CALLS = "tool_calls"


def check_response_template(spec: Mapping[str, Any]) -> None:
    """Raise ValueError if transformers rejects a response template."""
    from transformers.utils.chat_parsing.response_templates import load_response_template  # noqa: PLC0415  takes seconds

    load_response_template(dict(spec))


class TemplatedParser:
    """Splits a choice's text into reasoning, calls of `functions`, and content.

    A call is returned when it is complete. Calls of unknown functions, and text that transformers can't parse, are
    content.
    """

    def __init__(
        self, spec: Mapping[str, Any], functions: Mapping[str, Schema], prompt: str, choice_index: int = 0
    ) -> None:
        from transformers.utils.chat_parsing import ResponseParser  # noqa: PLC0415  takes seconds

        self.has_reasoned = False
        self.content_start: int | None = None
        tools: list[Any] = [{"function": {"name": name, "parameters": schema}} for name, schema in functions.items()]
        self._parser: Any = ResponseParser(dict(spec), prefix=prompt, tools=tools)
        self._choice_index = choice_index
        self._num_calls = 0
        self._names = frozenset(functions)
        self._text = ""  # everything received
        self._num_consumed = 0  # characters that were returned or belong to no region
        self._call = ""  # the text of the current call
        self._is_broken = False
        for event in self._parser.initial_events:  # for regions that the prompt has opened
            self.has_reasoned |= event["field"] in _REASONING

    @property
    def num_held(self) -> int:
        """The number of the last characters that are held back until it is known whether they are content."""
        return len(self._text) - self._num_consumed

    def feed(self, text: str) -> list[Delta]:
        """Take more text, and return the events that became known."""
        self._text += text
        return self._read(lambda: self._parser.feed(text))

    def close(self) -> list[Delta]:
        """End the text, and return the events of what was held back."""
        events = self._read(lambda: self._parser.finalize()[1])
        self._num_consumed = len(self._text)
        return events

    def _read(self, events_of: Any) -> list[Delta]:
        """Return the deltas of the tokenizer's parser; if it fails, the rest of the text is content."""
        if self._is_broken:
            return self._rest()
        try:
            return [delta for event in events_of() for delta in self._deltas(event)]
        except ValueError:  # such as a call that is not valid JSON
            self._is_broken = True
            return self._rest()

    def _rest(self) -> list[Delta]:
        """Return the text that no delta has yet as content."""
        text, start = self._text[self._num_consumed :], self._num_consumed
        self._num_consumed = len(self._text)
        self._begin_content(start)
        return [Text(self._choice_index, text, start=start)] if text else []

    def _deltas(self, event: Mapping[str, Any]) -> list[Delta]:
        """Return the deltas of one event of the tokenizer's parser."""
        field = event["field"]
        match event["type"]:
            case "region_chunk" if field == _CALLS:
                self._call += event["text"]
            case "region_chunk":
                return [self._text_of(field, event["text"])]
            case "region_close" if field == _CALLS:
                call, self._call = self._call, ""
                return self._calls(event, call)
        return []

    def _text_of(self, field: str, text: str) -> Delta:
        """Return a field's text as reasoning or content."""
        start = self._skip(text)
        if field in _REASONING:
            self.has_reasoned = True
            return Reasoning(self._choice_index, text)
        self._begin_content(start)
        return Text(self._choice_index, text, start=start)

    def _calls(self, event: Mapping[str, Any], text: str) -> list[Delta]:
        """Return the deltas of complete calls; calls of unknown functions are content."""
        start = self._skip(text)
        self._begin_content(start)
        value = event["value"]
        events: list[Delta] = []
        for each in value if isinstance(value, list) else [value]:
            call = each.get("function", each) if isinstance(each, dict) else {}
            call = call if isinstance(call, dict) else {}
            arguments = call.get("arguments", call.get("parameters", {}))
            written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            name = call.get("name")
            if not isinstance(name, str) or name not in self._names or not _is_unicode(written):
                return [Text(self._choice_index, text, start=start)]
            call_index = self._num_calls + len(events) // 2
            events += [
                ToolCall(self._choice_index, call_index, "", name),
                ToolArguments(self._choice_index, call_index, written),
            ]
        self._num_calls += len(events) // 2
        return events

    def _begin_content(self, start: int) -> None:
        """Record where the content starts, unless it has started before."""
        if self.content_start is None:
            self.content_start = start

    def _skip(self, text: str) -> int:
        """Return the start of a region's text. What precedes it belongs to no region."""
        start = max(self._text.find(text, self._num_consumed), self._num_consumed)
        self._num_consumed = start + len(text)
        return start


def _is_unicode(text: str) -> bool:
    """Return whether a text can be sent: it has no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
