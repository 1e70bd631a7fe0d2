"""Fold the stream of a chat into a ChatResponse.

There is no other way to create one, so that an unstreamed answer can't differ from its stream.
"""

from __future__ import annotations

from sluice.v1 import chat_pb2, content_pb2

from service.contract.parts.new_tokens import choice_index


class ChatFold:
    """Adds the events of a stream one by one; `response` is the answer so far."""

    def __init__(self) -> None:
        self.response = chat_pb2.ChatResponse()
        self._texts: dict[int, list[str]] = {}  # choice index → content
        self._reasoning: dict[int, list[str]] = {}
        self._arguments: dict[tuple[int, int], list[str]] = {}  # (choice index, call index) → arguments

    def add(self, event: chat_pb2.StreamChatResponse) -> None:
        """Add the next event."""
        if event.HasField("tokens"):
            self._choice(choice_index(event)).token_ids.extend(event.tokens.ids)
        match event.WhichOneof("event"):
            case "started":
                self._start(event.started)
            case "prompt_logprobs":
                self.response.prompt_logprobs.extend(event.prompt_logprobs.logprobs)
            case "content_delta":
                content = event.content_delta
                self._choice(content.choice_index).logprobs.extend(content.logprobs)
                self._texts.setdefault(content.choice_index, []).append(content.text)
            case "reasoning_delta":
                reasoning = event.reasoning_delta
                self._choice(reasoning.choice_index)
                self._reasoning.setdefault(reasoning.choice_index, []).append(reasoning.text)
            case "tool_call_delta":
                self._add_tool_call(event.tool_call_delta)
            case "choice_finished":
                self._finish(event.choice_finished)
            case "usage":
                self.response.usage.CopyFrom(event.usage)
            case "completed":
                self._complete(event.completed)

    def _start(self, started: chat_pb2.ChatStarted) -> None:
        """Set what is known of an answer when it begins."""
        response = self.response
        response.id, response.model = started.id, started.model
        response.created.CopyFrom(started.created)
        response.system_fingerprint = started.system_fingerprint
        response.prompt_token_ids.extend(started.prompt_token_ids)
        response.reasoning_effort = started.reasoning_effort

    def _complete(self, completed: chat_pb2.ChatCompleted) -> None:
        """Set what is known of an answer only at its end."""
        self.response.receipt = completed.receipt
        if completed.HasField("timings"):
            self.response.timings.CopyFrom(completed.timings)

    def _add_tool_call(self, delta: chat_pb2.ToolCallDelta) -> None:
        """Add a delta to its call, which it begins if it is the call's first."""
        calls = self._choice(delta.choice_index).message.tool_calls
        if delta.tool_call_index == len(calls):
            call = calls.add(id=delta.id)
            call.function.name = delta.name
        self._arguments.setdefault((delta.choice_index, delta.tool_call_index), []).append(delta.arguments)

    def _choice(self, index: int) -> chat_pb2.ChatChoice:
        """Return a choice of the answer; choices up to it are created."""
        choices = self.response.choices
        while len(choices) <= index:
            choice = choices.add(index=len(choices))
            choice.message.role = content_pb2.ROLE_ASSISTANT
        return choices[index]

    def _finish(self, finished: chat_pb2.ChoiceFinished) -> None:
        """Join the pieces of a finished choice. An answer without tool calls has content, which may be empty."""
        choice = self._choice(finished.choice_index)
        choice.finish_reason = finished.finish_reason
        if finished.HasField("stop_sequence"):
            choice.stop_sequence = finished.stop_sequence
        message = choice.message
        text = "".join(self._texts.get(choice.index, ()))
        if text or not message.tool_calls:
            message.content.add(text=text)
        if choice.index in self._reasoning:
            message.reasoning = "".join(self._reasoning[choice.index])
        for index, call in enumerate(message.tool_calls):
            call.function.arguments = "".join(self._arguments[choice.index, index])
