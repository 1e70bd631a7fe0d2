"""The fields that the bodies of Ollama's chats and generations have in common. Null is equivalent to absence."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta
from sluice.v1 import chat_pb2, sampling_pb2, serving_pb2
from sluice.v1.model_pb2 import KeepModelRequest

from gateway.dialects.ollama.keep_alive import KeepAlive, set_keep_alive
from gateway.dialects.ollama.model_name import served_name
from gateway.dialects.ollama.options import OPTION_NAMES, OllamaOptions
from gateway.dialects.seam.caller_name import dotted, renamed
from gateway.dialects.seam.contract_copy import copy_fields
from gateway.dialects.seam.contract_limit import put
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.json_body import is_given
from gateway.dialects.seam.model_name import ModelName
from gateway.dialects.seam.output_interval import check_interval

_RESUMED: Final = "last-event-id"
_EFFORTS: Final = {
    True: chat_pb2.REASONING_EFFORT_HIGH,
    False: chat_pb2.REASONING_EFFORT_NONE,
    "none": chat_pb2.REASONING_EFFORT_NONE,
    "minimal": chat_pb2.REASONING_EFFORT_LOW,
    "low": chat_pb2.REASONING_EFFORT_LOW,
    "medium": chat_pb2.REASONING_EFFORT_MEDIUM,
    "high": chat_pb2.REASONING_EFFORT_HIGH,
    "xhigh": chat_pb2.REASONING_EFFORT_HIGH,
    "max": chat_pb2.REASONING_EFFORT_HIGH,
}
_CALLER_NAMES: Final = {
    **OPTION_NAMES,
    "serving": "",
    "serving.keep_alive_seconds": "keep_alive",
    "logprobs": "logprobs",
    "logprobs.top_logprobs": "top_logprobs",
    "output_constraint": "format",
    "output_constraint.json_object": "format",
    "output_constraint.json_schema": "format",
    "output_constraint.json_schema.schema": "format",
    "reasoning_effort": "think",
}


class OllamaBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The common fields. `stream` is true by default."""

    model: ModelName = None
    stream: bool | None = None
    format: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    options: OllamaOptions | None = None
    keep_alive: KeepAlive | None = None
    think: bool | Literal["low", "medium", "high", "max"] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    truncate: bool | None = None
    shift: bool | None = None
    debug_render_only: bool | None = msgspec.field(default=None, name="_debug_render_only")
    priority: int | None = None
    slo_first_token_seconds: float | None = None
    slo_token_seconds: float | None = None
    receipt: bool | None = None
    output_interval_ms: int | None = None

    @property
    def streams(self) -> bool:
        """Whether the answer is streamed."""
        return self.stream is not False

    @property
    def served_model(self) -> str:
        """The name under which the model is served; empty if the body has none."""
        return served_name(self.model or "")

    def check(self) -> None:
        """Raise Failure for fields that contradict each other, and for values that only the contract allows."""
        check_interval(self.output_interval_ms, "output_interval_ms")
        if self.debug_render_only:
            text = "not supported: use /tokenize, which returns the tokens of a prompt"
            raise Failure.of_field("_debug_render_only", text, Reason.UNSUPPORTED_FIELD)
        if self.top_logprobs and not self.logprobs:
            raise Failure.of_field("top_logprobs", "needs logprobs")

    def set_common(self, request: Any) -> None:
        """Set the fields that chats and completions of the contract have in common. Raise Failure."""
        self.check()
        if self.options is not None:
            self.options.set_parameters(request.sampling, request.stopping)
        copy_fields(self, request.serving)
        request.serving.report_timings = True
        set_keep_alive(request.serving, self.keep_alive)
        if self.truncate is not False:
            request.serving.error_behavior = serving_pb2.ERROR_BEHAVIOR_TRUNCATE
        if self.output_interval_ms == 0:
            request.serving.separate_tokens = True
        if self.logprobs:
            request.logprobs.SetInParent()
            put(request.logprobs, "top_logprobs", self.top_logprobs, "top_logprobs")
        self._set_format(request)

    def load_request(self) -> KeepModelRequest:
        """Return the request that a body without messages or prompt makes: to load the model, or to unload it."""
        request = KeepModelRequest(model=self.served_model)
        set_keep_alive(request, self.keep_alive)
        return request

    def set_thinking(self, request: chat_pb2.ChatRequest) -> None:
        """Set how much the model thinks; by default the model decides."""
        effort = None if self.options is None else self.options.reasoning_effort
        if (think := effort if self.think is None else self.think) is not None:
            request.reasoning_effort = _EFFORTS[think]

    def caller_name(self, field: str) -> str:
        """Return the caller's name of a field: `stopping.max_tokens` → `options.num_predict`."""
        return renamed(dotted(field), _CALLER_NAMES)

    def _set_format(self, request: Any) -> None:
        """Set the constraint: `json` is any object, an object is a schema, and an empty text is free text."""
        if not is_given(self.format):
            return
        data = bytes(self.format)
        if data.startswith(b"{"):
            schema = sampling_pb2.JsonSchema(name="output", schema=data.decode(), in_prompt=False)
            request.output_constraint.json_schema.CopyFrom(schema)
        elif data == b'"json"':
            request.output_constraint.json_object.SetInParent()
        elif data != b'""':
            raise Failure.of_field("format", 'must be "json" or an object: a JSON Schema', Reason.INVALID_TYPE)


def check_not_resumed(http_request: HttpRequest) -> None:
    """Raise Failure for a request that resumes a stream: lines have no ids."""
    if _RESUMED in http_request.headers:
        raise Failure.of_field(_RESUMED, "is for server-sent events; streams of lines can't be resumed")
