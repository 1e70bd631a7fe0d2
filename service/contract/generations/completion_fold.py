"""Fold the stream of completions into a CompleteResponse.

There is no other way to create one, so that an unstreamed answer can't differ from its stream.
"""

from __future__ import annotations

from collections.abc import Sequence

from sluice.v1 import completion_pb2, prompt_pb2

from service.contract.parts.new_tokens import choice_index


class CompletionFold:
    """Adds the events of a stream one by one; `response` is the answer so far."""

    def __init__(self) -> None:
        self.response = completion_pb2.CompleteResponse()
        self._n = 1
        self._prompts: Sequence[prompt_pb2.TokenIds] = ()
        self._texts: dict[int, list[str]] = {}  # by choice index

    def add(self, event: completion_pb2.StreamCompleteResponse) -> None:
        """Add the next event."""
        if event.HasField("tokens"):
            self._choice(choice_index(event)).token_ids.extend(event.tokens.ids)
        match event.WhichOneof("event"):
            case "started":
                started, response = event.started, self.response
                response.id, response.model = started.id, started.model
                response.created.CopyFrom(started.created)
                response.system_fingerprint = started.system_fingerprint
                self._n = started.n
                self._prompts = started.prompt_token_ids
            case "delta":
                delta = event.delta
                choice = self._choice(delta.choice_index)
                choice.logprobs.extend(delta.logprobs)
                choice.prompt_logprobs.extend(delta.prompt_logprobs)
                self._texts.setdefault(delta.choice_index, []).append(delta.text)
            case "choice_finished":
                finished = event.choice_finished
                choice = self._choice(finished.choice_index)
                choice.finish_reason = finished.finish_reason
                if finished.HasField("stop_sequence"):
                    choice.stop_sequence = finished.stop_sequence
                choice.text = "".join(self._texts.get(finished.choice_index, ()))
            case "usage":
                self.response.usage.CopyFrom(event.usage)
            case "completed":
                self.response.receipt = event.completed.receipt
                if event.completed.HasField("timings"):
                    self.response.timings.CopyFrom(event.completed.timings)

    def _choice(self, index: int) -> completion_pb2.CompletionChoice:
        """Return a choice of the answer; choices up to it are created."""
        choices = self.response.choices
        while len(choices) <= index:
            choice = choices.add(index=len(choices), prompt_index=len(choices) // self._n)
            if self._prompts:
                choice.prompt_token_ids.extend(self._prompts[choice.prompt_index].ids)
        return choices[index]
