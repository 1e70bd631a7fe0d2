"""Answers of `sluice.v1` to responses of the open inference protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from sluice.inference import inference_pb2
from sluice.v1 import chat_pb2, embedding_pb2, rank_pb2, text_generation_pb2, tool_pb2

from service.contract.inference.requests import TEXT, TOOL_CALLS, Inference
from service.contract.inference.tensors import BYTES, Tensor, TensorWriter
from service.contract.inference.tools import to_call_list

FINAL: Final = "triton_final_response"
_FINISH_REASONS: Final = {
    chat_pb2.FINISH_REASON_STOP: "stop",
    chat_pb2.FINISH_REASON_LENGTH: "length",
    chat_pb2.FINISH_REASON_TOOL_CALLS: "tool_calls",
    chat_pb2.FINISH_REASON_CONTENT_FILTER: "content_filter",
}

Generated: TypeAlias = text_generation_pb2.GenerateTextResponse | chat_pb2.ChatResponse
GeneratedEvent: TypeAlias = text_generation_pb2.StreamGenerateTextResponse | chat_pb2.StreamChatResponse


@dataclass(slots=True)
class _End:
    """The end of a generated text."""

    finish_reason: chat_pb2.FinishReason = chat_pb2.FINISH_REASON_UNSPECIFIED
    num_input_tokens: int = 0
    num_output_tokens: int = 0
    tool_calls: list[tool_pb2.ToolCall] = field(default_factory=list)

    def add_call(self, delta: chat_pb2.ToolCallDelta) -> None:
        """Add a piece of a tool call. The first one of a call has its id and name."""
        if delta.tool_call_index == len(self.tool_calls):
            self.tool_calls.append(tool_pb2.ToolCall(id=delta.id, function=tool_pb2.FunctionCall(name=delta.name)))
        self.tool_calls[delta.tool_call_index].function.arguments += delta.arguments


class Responses:
    """Creates the responses of one request."""

    def __init__(self, request: inference_pb2.ModelInferRequest, inference: Inference, version: str) -> None:
        """`version` is that of the model."""
        self._inference = inference
        self._tensors = TensorWriter(request)
        self._id = request.id
        self._model = request.model_name
        self._version = version
        self._end = _End()

    def generated(self, answer: Generated) -> inference_pb2.ModelInferResponse:
        """Return the response with a whole text."""
        usage = answer.usage
        if isinstance(answer, chat_pb2.ChatResponse):
            (choice,) = answer.choices
            text = "".join(part.text for part in choice.message.content)
            calls = list(choice.message.tool_calls)
            end = _End(choice.finish_reason, usage.prompt_tokens, usage.completion_tokens, calls)
        else:
            text = self._inference.prefix + answer.text
            end = _End(answer.finish_reason, usage.prompt_tokens, usage.completion_tokens)
        return self._response(answer.id, answer.model, self._text_tensors(text, end))

    def encoded(self, answer: embedding_pb2.EmbedResponse | rank_pb2.ScoreResponse) -> inference_pb2.ModelInferResponse:
        """Return the response with embeddings, a row for each text, or with scores, one for each document."""
        if isinstance(answer, rank_pb2.ScoreResponse):
            tensor = Tensor("scores", "FP32", (len(answer.scores),), answer.scores)
        else:
            rows = [each.values for each in answer.embeddings]
            shape = (len(rows), len(rows[0]) if rows else 0)
            tensor = Tensor("embeddings", "FP32", shape, [value for row in rows for value in row])
        return self._response(answer.id, answer.model, [tensor])

    def streamed(self, event: GeneratedEvent) -> Iterator[inference_pb2.ModelInferResponse]:
        """Yield the responses for an event of a stream: one for each piece of text, and a last one at the end."""
        match event.WhichOneof("event"):
            case "started":
                self._id, self._model = self._id or event.started.id, event.started.model
            case "delta" | "content_delta" as name:
                if text := getattr(event, name).text:
                    yield self._piece(text)
            case "tool_call_delta" if isinstance(event, chat_pb2.StreamChatResponse):
                self._end.add_call(event.tool_call_delta)
            case "finished" | "choice_finished" as name:
                self._end.finish_reason = getattr(event, name).finish_reason
            case "usage":
                self._end.num_input_tokens = event.usage.prompt_tokens
                self._end.num_output_tokens = event.usage.completion_tokens
            case "completed":
                yield final(self._response("", self._model, self._text_tensors("", self._end)))

    def _piece(self, text: str) -> inference_pb2.ModelInferResponse:
        """Return a response with a piece of text."""
        response = self._response("", self._model, [_text_tensor(TEXT, text)])
        response.parameters[FINAL].bool_param = False
        return response

    def _text_tensors(self, text: str, end: _End) -> list[Tensor]:
        """Return the tensors of a text and its end, as far as the client requests them."""
        tensors = [
            _text_tensor(TEXT, text),
            _text_tensor("finish_reason", _FINISH_REASONS.get(end.finish_reason, "")),
            Tensor("num_input_tokens", "UINT32", (1,), (end.num_input_tokens,)),
            Tensor("num_output_tokens", "UINT32", (1,), (end.num_output_tokens,)),
            _text_tensor(TOOL_CALLS, to_call_list(end.tool_calls)),
        ]
        return [each for each in tensors if each.name in self._inference.outputs]

    def _response(self, answer_id: str, model: str, tensors: Sequence[Tensor]) -> inference_pb2.ModelInferResponse:
        """Return a response with these tensors."""
        response = inference_pb2.ModelInferResponse(
            model_name=model, model_version=self._version, id=self._id or answer_id
        )
        for tensor in tensors:
            self._tensors.write(response, tensor)
        return response


def final(response: inference_pb2.ModelInferResponse) -> inference_pb2.ModelInferResponse:
    """Return a response that is marked as the last one of its request."""
    response.parameters[FINAL].bool_param = True
    return response


def _text_tensor(name: str, text: str) -> Tensor:
    return Tensor(name, BYTES, (1,), (text.encode(),))
