"""Read one choice's outputs as events: reasoning, tool calls, content, logprobs, finish reason."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from service.engine.tokens.tokenizer import Tokenizer
from service.generation.formats.constraint import ReasoningMarkers, ReasoningStart
from service.generation.outputs.events import ChoiceFinished, DecodedLogprob, Delta, Event, Text, ToolCall
from service.generation.outputs.output import FinishReason, GenerationOutput
from service.output.families.tool_syntax import ChannelCall, Schema, TemplatedCall, ToolSyntax
from service.output.parsers.channel_parser import ChannelParser
from service.output.parsers.marked_answer import MarkedAnswerParser
from service.output.parsers.reasoning import ReasoningParser
from service.output.parsers.templated_parser import TemplatedParser
from service.output.parsers.tool_parser import ToolCallParser
from service.output.tokens.logprobs import ContentLogprobs
from service.output.tokens.token_ranges import TextRange, TokenRanges


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """The syntax of the answers to one prompt, by which they are parsed."""

    markers: ReasoningMarkers | None = None  # None if there is no reasoning to parse
    start: ReasoningStart = ReasoningStart.NONE
    syntax: ToolSyntax | None = None  # of tool calls; None if there are none to parse
    functions: Mapping[str, Schema] = field(default_factory=dict)  # that may be called, with their parameters' schemas
    num_earlier_calls: int = 0  # in the conversation
    prompt: str = ""  # only for a syntax whose parser needs the prompt's end
    emits_every_token: bool = False  # logprobs also of tokens without text, except those cut off by a stop string


class ChoiceReader:
    """Reads the outputs of one choice as events."""

    def __init__(
        self,
        index: int,
        tokenizer: Tokenizer,
        form: AnswerForm,
        *,
        hidden_ids: Collection[int],
        with_logprobs: bool,
        answer_id: str = "",
    ) -> None:
        """`hidden_ids` are the tokens that the engine omits from the text; calls' ids are derived from `answer_id`."""
        self.num_tokens = 0
        self.finish_reason: FinishReason | None = None  # once it has ended
        self._index = index
        self._answer_id = answer_id
        self._form = form
        self._reasoning = _reasoning_parser(form, index)
        self._marked = MarkedAnswerParser(form.markers, index) if form.markers and form.markers.answer_close else None
        self._tools: ToolCallParser | None = None  # created when the content begins
        self._num_received = 0  # characters
        self._ranges = TokenRanges(tokenizer, hidden_ids)
        self._starts: list[int] = []  # of the tokens' ranges
        self._logprobs = ContentLogprobs(tokenizer, every=form.emits_every_token) if with_logprobs else None
        self._num_calls = 0

    @property
    def num_reasoning_tokens(self) -> int:
        """The number of tokens of the reasoning, including its markers and the white space around them."""
        if self._reasoning is None or not self._reasoning.has_reasoned:
            return 0
        start = self._reasoning.content_start
        return self.num_tokens if start is None else bisect_left(self._starts, start)

    def read(self, output: GenerationOutput) -> list[Event]:
        """Return the events of the next output."""
        is_last = output.finish_reason is not None
        self._take_tokens(output)
        self._num_received += len(output.text)
        events = self._events(self._parse(output.text, is_last=is_last))
        if self._logprobs is not None:
            self._attach(self._logprobs.take(self._num_decided(is_last=is_last)), events)
        if output.finish_reason is not None:
            events.append(self._finished(output.finish_reason, output.stop_sequence))
        return events

    def _take_tokens(self, output: GenerationOutput) -> None:
        """Record the range of text of each token."""
        self.num_tokens += len(output.token_ids)
        if self._logprobs is None and self._reasoning is None:
            return  # the positions of tokens in the text are not needed
        last = len(output.token_ids) - 1 if output.finish_reason is FinishReason.END_OF_TEXT else None
        for index, (token_id, text_end) in enumerate(zip(output.token_ids, output.text_ends, strict=True)):
            characters = self._ranges.append(token_id, text_end)
            if index == last and text_end == characters.start:
                characters = TextRange(text_end, text_end)  # it ended the text
            self._starts.append(characters.start)
            if self._logprobs is not None and index < len(output.logprobs):
                self._logprobs.add_token(characters, output.logprobs[index])

    def _parse(self, text: str, *, is_last: bool) -> list[Delta]:
        """Return the deltas of a text: reasoning, content and calls."""
        deltas: list[Delta] = []
        if self._reasoning is None:
            deltas += self._parse_content(Text(self._index, text, start=self._num_received - len(text)))
        else:
            for delta in [*self._reasoning.feed(text), *(self._reasoning.close() if is_last else ())]:
                deltas += self._parse_answer(delta) if isinstance(delta, Text) else [delta]
        if is_last and self._marked is not None:
            for content in self._marked.close():
                deltas += self._parse_content(content)
        if is_last and self._tools is not None:
            deltas += self._tools.close()
        return deltas

    def _parse_answer(self, answer: Text) -> Iterable[Delta]:
        """Return the deltas of the text after the reasoning, which may be between markers."""
        if self._marked is None:
            return self._parse_content(answer)
        return [delta for content in self._marked.feed(answer) for delta in self._parse_content(content)]

    def _parse_content(self, content: Text) -> Iterable[Delta]:
        """Return the deltas of content, which may have tool calls."""
        if not content.text:
            return ()
        syntax = self._form.syntax
        if syntax is None or isinstance(syntax.payload, ChannelCall | TemplatedCall):
            return (content,)
        if self._tools is None:
            self._tools = ToolCallParser(syntax, self._form.functions, content.start, self._index)
        return self._tools.feed(content.text, content.start)

    def _events(self, deltas: Iterable[Delta]) -> list[Event]:
        """Return the deltas with the ids of calls, and with the logprobs of content that precedes a call."""
        events: list[Event] = []
        for delta in deltas:
            if isinstance(delta, ToolCall):
                self._num_calls = delta.call_index + 1
                events.append(delta._replace(id=self._call_id(delta.name)))
                continue
            if isinstance(delta, Text) and self._logprobs is not None:
                if events and not isinstance(events[-1], Text):
                    self._attach(self._logprobs.take(delta.start), events)
                self._logprobs.add_content(TextRange(delta.start, delta.start + len(delta.text)))
            events.append(delta)
        return events

    def _call_id(self, name: str) -> str:
        """Return the id of the newest call in the form that the model's template expects."""
        if self._form.syntax is None:
            return ""
        unique = f"{self._answer_id}/{self._index}/{self._num_calls}"
        return self._form.syntax.call_id(unique, name, self._form.num_earlier_calls + self._num_calls - 1)

    def _num_decided(self, *, is_last: bool) -> int:
        """Return the number of the first characters that are known to be content or not."""
        if is_last:
            return self._ranges.num_characters + 1
        parsers = (self._reasoning, self._marked, self._tools)
        return self._num_received - sum(parser.num_held for parser in parsers if parser is not None)

    def _attach(self, logprobs: list[DecodedLogprob], events: list[Event]) -> None:
        """Add logprobs to the last text event, or to a new one if the text was returned before."""
        if not logprobs:
            return
        for position in range(len(events) - 1, -1, -1):
            event = events[position]
            if isinstance(event, Text):
                events[position] = event._replace(logprobs=(*event.logprobs, *logprobs))
                return
        events.insert(0, Text(self._index, "", tuple(logprobs)))  # before a call that follows the text

    def _finished(self, reason: FinishReason, stop_sequence: str | None) -> ChoiceFinished:
        """Return the event that ends the choice."""
        # The last call of a truncated answer may be incomplete, so its reason stays LENGTH.
        if self._num_calls and reason is not FinishReason.LENGTH:
            reason = FinishReason.TOOL_CALLS
        self.finish_reason = reason
        return ChoiceFinished(self._index, reason, stop_sequence)


def _reasoning_parser(form: AnswerForm, index: int) -> ReasoningParser | ChannelParser | TemplatedParser | None:
    """Return the parser of an answer's reasoning; None if it has none to parse."""
    payload = form.syntax.payload if form.syntax is not None else None
    if isinstance(payload, ChannelCall):
        return ChannelParser(form.functions, form.start, index)
    if isinstance(payload, TemplatedCall):
        return TemplatedParser(payload.template, form.functions, form.prompt, index)
    return ReasoningParser(form.markers, form.start, index) if form.markers else None
