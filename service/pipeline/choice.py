"""One choice's outputs as events.

Owns the chain from the engine's text to deltas: thinking, tool calls, content, logprobs, finish reason. One object a
choice, called on the loop. Doesn't number the events.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection

from sluice.v1 import chat_pb2, logprobs_pb2

from service.engine import types
from service.engine.tokenizer import Tokenizer
from service.pipeline.logprobs import ContentLogprobs
from service.pipeline.pieces import CallArguments, CallStart, Content, Piece, Reasoning
from service.pipeline.reasoning import ReasoningParser
from service.pipeline.token_spans import Span, TokenSpans
from service.pipeline.tool_parser import ToolCallParser
from service.pipeline.tool_syntax import ToolSyntax

FINISH_REASONS = {
    types.FinishReason.END_OF_TEXT: chat_pb2.FINISH_REASON_STOP,
    types.FinishReason.STOP_SEQUENCE: chat_pb2.FINISH_REASON_STOP,
    types.FinishReason.LENGTH: chat_pb2.FINISH_REASON_LENGTH,
}


class ChoiceEvents:
    """Turns the outputs of one choice into events."""

    def __init__(
        self,
        index: int,
        tokenizer: Tokenizer,
        *,
        reasoning: ReasoningParser | None,
        syntax: ToolSyntax | None,
        names: Collection[str],
        hidden_ids: Collection[int],
        with_logprobs: bool,
    ) -> None:
        """`syntax` is None where no calls are looked for; `names` are the functions that may be called.

        `hidden_ids` are the tokens that the engine leaves out of the text.
        """
        self.num_tokens = 0
        self.finish_reason: chat_pb2.FinishReason | None = None  # once it has ended
        self._index = index
        self._reasoning = reasoning
        self._syntax = syntax
        self._names = names
        self._tools: ToolCallParser | None = None  # made where the content begins
        self._num_received = 0  # characters
        self._spans = TokenSpans(tokenizer, hidden_ids)
        self._starts: list[int] = []  # of the tokens' spans
        self._logprobs = ContentLogprobs(tokenizer) if with_logprobs else None
        self._num_calls = 0

    @property
    def num_reasoning_tokens(self) -> int:
        """Tokens of the thinking, its markers and the white space beside them included."""
        if self._reasoning is None or not self._reasoning.has_thought:
            return 0
        start = self._reasoning.content_start
        return self.num_tokens if start is None else bisect_left(self._starts, start)

    def take(self, output: types.GenerationOutput) -> list[chat_pb2.StreamChatResponse]:
        """The events of the next output."""
        self._take_tokens(output)
        self._num_received += len(output.text)
        pieces = self._parse(output.text, is_last=output.finish_reason is not None)
        events = self._deltas(pieces)
        if self._logprobs is not None:
            self._attach(self._logprobs.take(self._num_decided(is_last=output.finish_reason is not None)), events)
        if output.finish_reason is not None:
            events.append(self._finished(output.finish_reason, output.stop_sequence))
        return events

    def _take_tokens(self, output: types.GenerationOutput) -> None:
        for index, token_id in enumerate(output.token_ids):
            span = self._spans.append(token_id)
            self._starts.append(span.start)
            if self._logprobs is not None and index < len(output.logprobs):
                self._logprobs.add_token(span, output.logprobs[index])
        self.num_tokens += len(output.token_ids)

    def _parse(self, text: str, *, is_last: bool) -> list[Piece]:
        pieces: list[Piece] = []
        if self._reasoning is None:
            pieces += self._parse_content(Content(text, self._num_received - len(text)))
        else:
            for piece in self._reasoning.feed(text) + (self._reasoning.close() if is_last else []):
                pieces += self._parse_content(piece) if isinstance(piece, Content) else [piece]
        if is_last and self._tools is not None:
            pieces += self._tools.close()
        return pieces

    def _parse_content(self, content: Content) -> list[Piece]:
        if not content.text:
            return []
        if self._syntax is None:
            return [content]
        if self._tools is None:
            self._tools = ToolCallParser(self._syntax, self._names, content.start)
        return self._tools.feed(content.text)

    def _deltas(self, pieces: list[Piece]) -> list[chat_pb2.StreamChatResponse]:
        events: list[chat_pb2.StreamChatResponse] = []
        for piece in pieces:
            event = chat_pb2.StreamChatResponse()
            match piece:
                case Content(text, start):
                    event.content_delta.choice_index = self._index
                    event.content_delta.text = text
                    if self._logprobs is not None:
                        if events and not events[-1].HasField("content_delta"):
                            self._attach(self._logprobs.take(start), events)  # what is before a call stays there
                        self._logprobs.add_content(Span(start, start + len(text)))
                case Reasoning(text):
                    event.reasoning_delta.choice_index = self._index
                    event.reasoning_delta.text = text
                case CallStart(name):
                    self._num_calls += 1
                    event.tool_call_delta.choice_index = self._index
                    event.tool_call_delta.tool_call_index = self._num_calls - 1
                    event.tool_call_delta.name = name
                    if self._syntax is not None:
                        event.tool_call_delta.id = self._syntax.new_call_id()
                case CallArguments(text):
                    event.tool_call_delta.choice_index = self._index
                    event.tool_call_delta.tool_call_index = self._num_calls - 1
                    event.tool_call_delta.arguments = text
            events.append(event)
        return events

    def _num_decided(self, *, is_last: bool) -> int:
        """How many of the text's first characters are known to be content or not."""
        if is_last:
            return self._spans.num_characters + 1
        num_held = (self._reasoning.num_held if self._reasoning else 0) + (self._tools.num_held if self._tools else 0)
        return self._num_received - num_held

    def _attach(self, logprobs: list[logprobs_pb2.TokenLogprob], events: list[chat_pb2.StreamChatResponse]) -> None:
        """Put logprobs into the last content delta, or, where it was told before, into one of their own."""
        if not logprobs:
            return
        event = next((event for event in reversed(events) if event.HasField("content_delta")), None)
        if event is None:
            event = chat_pb2.StreamChatResponse()
            event.content_delta.choice_index = self._index
            events.insert(0, event)  # before a call that follows the text
        event.content_delta.logprobs.extend(logprobs)

    def _finished(self, reason: types.FinishReason, stop_sequence: str | None) -> chat_pb2.StreamChatResponse:
        event = chat_pb2.StreamChatResponse()
        finished = event.choice_finished
        finished.choice_index = self._index
        finished.finish_reason = FINISH_REASONS[reason]
        # An answer that was cut off stays one: its last call may be incomplete.
        if self._num_calls and reason is not types.FinishReason.LENGTH:
            finished.finish_reason = chat_pb2.FINISH_REASON_TOOL_CALLS
        self.finish_reason = finished.finish_reason
        if stop_sequence is not None:
            finished.stop_sequence = stop_sequence
        return event
