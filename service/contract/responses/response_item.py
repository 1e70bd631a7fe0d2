"""One output item of a response while it is generated.

Each kind of item has a class that renders its events from beginning to end, without sequence numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sluice.v1 import logprobs_pb2, response_event_pb2, response_item_pb2, tool_pb2

Event = response_event_pb2.StreamResponseResponse
ResponseStatus = response_item_pb2.ResponseStatus

_CALL_PREFIX: Final = "fc"  # of the ids of calls
_CUSTOM_CALL_PREFIX: Final = "ctc"  # of those of custom tools
_KNOWN_PREFIXES: Final = {
    tool_pb2.KNOWN_TOOL_LOCAL_SHELL: "lsh",
    tool_pb2.KNOWN_TOOL_SHELL: "sh",
    tool_pb2.KNOWN_TOOL_APPLY_PATCH: "apc",
}


def call_prefix(known_tool: tool_pb2.KnownTool, *, is_custom: bool) -> str:
    """Return the prefix of the ids of a tool's calls, by which clients of OpenAI's API distinguish the kinds."""
    return _KNOWN_PREFIXES.get(known_tool, _CUSTOM_CALL_PREFIX if is_custom else _CALL_PREFIX)


class OpenItem:
    """The base class of items. `item` is the message so far."""

    prefix = ""

    def __init__(self, response_id: str, index: int, prefix: str = "") -> None:
        """`index` is the item's index in the response, from which and the response's id its own id is derived."""
        self.index = index
        self.item = response_item_pb2.OutputItem(
            id=f"{prefix or self.prefix}_{response_id}_{index}", status=response_item_pb2.RESPONSE_STATUS_IN_PROGRESS
        )
        self._texts: list[str] = []

    def _added(self) -> Event:
        return Event(output_item_added=response_event_pb2.OutputItemAdded(output_index=self.index, item=self.item))

    def _done(self, status: ResponseStatus) -> Event:
        self.item.status = status
        return Event(output_item_done=response_event_pb2.OutputItemDone(output_index=self.index, item=self.item))

    def end(self, status: ResponseStatus) -> Iterator[Event]:
        """Return the events that end the item, complete or cut off."""
        raise NotImplementedError


class OpenMessage(OpenItem):
    """A message with one text part."""

    prefix = "msg"

    def begin(self) -> Iterator[Event]:
        """Return the events that begin the item."""
        self.item.message.SetInParent()
        yield self._added()
        added = response_event_pb2.ContentPartAdded(item_id=self.item.id, output_index=self.index)
        added.part.SetInParent()
        self._part = self.item.message.content.add()
        yield Event(content_part_added=added)

    def add(self, text: str, logprobs: Sequence[logprobs_pb2.TokenLogprob]) -> Event:
        """Return the event for more text, or log probabilities of text sent before."""
        self._texts.append(text)
        self._part.logprobs.extend(logprobs)
        return Event(
            output_text_delta=response_event_pb2.OutputTextDelta(
                item_id=self.item.id, output_index=self.index, delta=text, logprobs=logprobs
            )
        )

    def end(self, status: ResponseStatus) -> Iterator[Event]:
        """Return the events that end the item."""
        part = self._part
        part.text = "".join(self._texts)
        ids = {"item_id": self.item.id, "output_index": self.index}
        yield Event(output_text_done={**ids, "text": part.text, "logprobs": part.logprobs})
        yield Event(content_part_done={**ids, "part": part})
        yield self._done(status)


class OpenReasoning(OpenItem):
    """A reasoning item."""

    prefix = "rs"

    def begin(self) -> Iterator[Event]:
        """Return the event that begins the item."""
        self.item.reasoning.SetInParent()
        yield self._added()

    def add(self, text: str) -> Event:
        """Return the event for more reasoning."""
        self._texts.append(text)
        return Event(
            reasoning_text_delta=response_event_pb2.ReasoningTextDelta(
                item_id=self.item.id, output_index=self.index, delta=text
            )
        )

    def end(self, status: ResponseStatus) -> Iterator[Event]:
        """Return the events that end the item."""
        self.item.reasoning.text = "".join(self._texts)
        yield Event(
            reasoning_text_done=response_event_pb2.ReasoningTextDone(
                item_id=self.item.id, output_index=self.index, text=self.item.reasoning.text
            )
        )
        yield self._done(status)


class OpenCall(OpenItem):
    """A call of a function."""

    def __init__(self, response_id: str, index: int, function: tool_pb2.FunctionDefinition) -> None:
        """`function` is the definition, or an empty one with its name if the request has none."""
        super().__init__(response_id, index, call_prefix(function.known_tool, is_custom=function.custom))
        self._function = function

    def begin(self, call_id: str) -> Iterator[Event]:
        """Return the event that begins the item, with the call's id."""
        function = self._function
        self.item.function_call.CopyFrom(
            response_item_pb2.FunctionCallItem(
                call_id=call_id,
                name=function.name,
                namespace=function.namespace,
                custom=function.custom,
                known_tool=function.known_tool,
            )
        )
        yield self._added()

    def add(self, arguments: str) -> Event:
        """Return the event for more arguments."""
        self._texts.append(arguments)
        return Event(
            function_call_arguments_delta=response_event_pb2.FunctionCallArgumentsDelta(
                item_id=self.item.id, output_index=self.index, delta=arguments, custom=self._function.custom
            )
        )

    def end(self, status: ResponseStatus) -> Iterator[Event]:
        """Return the events that end the item."""
        self.item.function_call.arguments = "".join(self._texts)
        yield Event(
            function_call_arguments_done=response_event_pb2.FunctionCallArgumentsDone(
                item_id=self.item.id,
                output_index=self.index,
                arguments=self.item.function_call.arguments,
                custom=self._function.custom,
            )
        )
        yield self._done(status)
