"""One output item of a response while it is generated.

Each kind of item has a class that renders its events from beginning to end, without sequence numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sluice.v1 import logprobs_pb2, response_event_pb2, response_item_pb2

Event = response_event_pb2.StreamResponseResponse
ResponseStatus = response_item_pb2.ResponseStatus

CALL_PREFIX: Final = "fc"  # of the ids of calls
CUSTOM_CALL_PREFIX: Final = "ctc"  # of those of custom tools


class OpenItem:
    """The base class of items. `item` is the message so far."""

    prefix: str

    def __init__(self, response_id: str, index: int) -> None:
        """`index` is the item's index in the response, from which and the response's id its own id is derived."""
        self.index = index
        self.item = response_item_pb2.OutputItem(
            id=f"{self.prefix}_{response_id}_{index}", status=response_item_pb2.RESPONSE_STATUS_IN_PROGRESS
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

    prefix: str = CALL_PREFIX
    is_custom = False

    def begin(self, call_id: str, name: str, namespace: str) -> Iterator[Event]:
        """Return the event that begins the item, with the call's id, and the name and namespace of its function."""
        call = self.item.function_call
        call.call_id, call.name, call.namespace, call.custom = call_id, name, namespace, self.is_custom
        yield self._added()

    def add(self, arguments: str) -> Event:
        """Return the event for more arguments."""
        self._texts.append(arguments)
        return Event(
            function_call_arguments_delta=response_event_pb2.FunctionCallArgumentsDelta(
                item_id=self.item.id, output_index=self.index, delta=arguments, custom=self.is_custom
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
                custom=self.is_custom,
            )
        )
        yield self._done(status)


class OpenCustomCall(OpenCall):
    """A call of a custom tool."""

    prefix = CUSTOM_CALL_PREFIX
    is_custom = True
