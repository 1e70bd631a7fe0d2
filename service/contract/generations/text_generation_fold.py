"""Fold the stream of a text generation into a GenerateTextResponse.

There is no other way to create one, so that an unstreamed answer can't differ from its stream.
"""

from __future__ import annotations

from sluice.v1 import text_generation_pb2


class TextFold:
    """Adds the events of a stream one by one; `response` is the answer when the stream has ended."""

    def __init__(self) -> None:
        self.response = text_generation_pb2.GenerateTextResponse()
        self._texts: list[str] = []

    def add(self, event: text_generation_pb2.StreamGenerateTextResponse) -> None:
        """Add the next event."""
        response = self.response
        match event.WhichOneof("event"):
            case "started":
                started = event.started
                response.id, response.model, response.model_version = started.id, started.model, started.model_version
            case "delta":
                self._texts.append(event.delta.text)
            case "finished":
                finished = event.finished
                response.text = "".join(self._texts)
                response.finish_reason = finished.finish_reason
                if finished.HasField("stop_sequence"):
                    response.stop_sequence = finished.stop_sequence
                response.num_generated_tokens = finished.num_generated_tokens
                response.timings.CopyFrom(finished.timings)
            case "usage":
                response.usage.CopyFrom(event.usage)
            case "completed":
                response.receipt = event.completed.receipt
