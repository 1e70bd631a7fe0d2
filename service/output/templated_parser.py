"""Parse an answer by the tokenizer's `response_template`, which transformers defines and parses.

Its regions are fields of a message: `content`, `reasoning_content` or `thinking`, and `tool_calls`. The import of
transformers takes seconds: it is done where the first such model is loaded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from service.generation.events import Delta, Reasoning, Text, ToolArguments, ToolCall
from service.output.tool_syntax import Schema

_REASONING = frozenset({"reasoning_content", "reasoning", "thinking"})
_CALLS = "tool_calls"


def check_response_template(spec: Mapping[str, Any]) -> None:
    """Raise ValueError for one that transformers doesn't take."""
    from transformers.utils.chat_parsing.response_templates import load_response_template  # noqa: PLC0415  see above

    load_response_template(dict(spec))


class TemplatedParser:
    """Takes a choice's text; returns reasoning, calls of `functions`, and content.

    A call is told when it has ended. What calls an unknown function, and what transformers can't read, is content.
    """

    def __init__(
        self, spec: Mapping[str, Any], functions: Mapping[str, Schema], prompt: str, choice_index: int = 0
    ) -> None:
        from transformers.utils.chat_parsing import ResponseParser  # noqa: PLC0415  see above

        self.has_reasoned = False
        self.content_start: int | None = None
        tools: list[Any] = [{"function": {"name": name, "parameters": schema}} for name, schema in functions.items()]
        self._parser: Any = ResponseParser(dict(spec), prefix=prompt, tools=tools)
        self._choice_index = choice_index
        self._num_calls = 0
        self._names = frozenset(functions)
        self._text = ""  # all of it
        self._place = 0  # up to which it was told or belongs to nothing
        self._call = ""  # the text of the call that is being read
        self._is_broken = False
        for event in self._parser.initial_events:  # what the prompt has begun already
            self.has_reasoned |= event["field"] in _REASONING

    @property
    def num_held(self) -> int:
        """How many of the last characters fed are not yet known to be content or not."""
        return len(self._text) - self._place

    def feed(self, text: str) -> list[Delta]:
        """Take more text; return what became known."""
        self._text += text
        return self._read(lambda: self._parser.feed(text))

    def close(self) -> list[Delta]:
        """The text has ended; return what was held back."""
        events = self._read(lambda: self._parser.finalize()[1])
        self._place = len(self._text)
        return events

    def _read(self, events_of: Any) -> list[Delta]:
        if self._is_broken:
            return self._rest()
        try:
            return [piece for event in events_of() for piece in self._told(event)]
        except ValueError:  # such as a call that is no JSON
            self._is_broken = True
            return self._rest()

    def _rest(self) -> list[Delta]:
        text, start = self._text[self._place :], self._place
        self._place = len(self._text)
        self._begin_content(start)
        return [Text(self._choice_index, text, start=start)] if text else []

    def _told(self, event: Mapping[str, Any]) -> list[Delta]:
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
        start = self._skip(text)
        if field in _REASONING:
            self.has_reasoned = True
            return Reasoning(self._choice_index, text)
        self._begin_content(start)
        return Text(self._choice_index, text, start=start)

    def _calls(self, event: Mapping[str, Any], text: str) -> list[Delta]:
        start = self._skip(text)
        self._begin_content(start)
        value = event["value"]
        events: list[Delta] = []
        for each in value if isinstance(value, list) else [value]:
            call = each.get("function", each) if isinstance(each, dict) else {}
            call = call if isinstance(call, dict) else {}
            arguments = call.get("arguments", call.get("parameters", {}))
            if call.get("name") not in self._names:
                return [Text(self._choice_index, text, start=start)]
            written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            call_index = self._num_calls + len(events) // 2
            events += [
                ToolCall(self._choice_index, call_index, "", call["name"]),
                ToolArguments(self._choice_index, call_index, written),
            ]
        self._num_calls += len(events) // 2
        return events

    def _begin_content(self, start: int) -> None:
        if self.content_start is None:
            self.content_start = start

    def _skip(self, text: str) -> int:
        """Where a region's text stands; what is before it belongs to nothing."""
        start = max(self._text.find(text, self._place), self._place)
        self._place = start + len(text)
        return start
