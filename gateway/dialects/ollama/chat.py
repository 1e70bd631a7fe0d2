"""Ollama's `POST /api/chat`. docs/api/ollama.md has the table of its fields; a test tries every row."""

from __future__ import annotations

import re
from typing import Annotated, Final

import msgspec
from sluice.v1 import chat_pb2, model_pb2, tool_pb2

from gateway.dialects.ollama.body import OllamaBody, check_not_resumed
from gateway.dialects.ollama.encoder import LoadEncoder, OllamaChatEncoder
from gateway.dialects.ollama.error import OllamaErrors
from gateway.dialects.ollama.line import chat_fields
from gateway.dialects.ollama.message import OllamaMessage, to_messages
from gateway.dialects.seam.contract_limit import check_length, check_text, check_values, put
from gateway.dialects.seam.encoder import StreamFormat
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.json_body import decode, is_given
from gateway.dialects.seam.translator import ParsedRequest

_CONTENT: Final = re.compile(r"^(messages\.\d+\.content)\.\d+(?:\.text)?$")


class OllamaFunction(msgspec.Struct):
    """A function that the model may call. `parameters` is a JSON Schema."""

    name: str
    description: str | None = None
    parameters: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class OllamaTool(msgspec.Struct):
    """A tool that the model may call."""

    function: OllamaFunction


class OllamaChatBody(OllamaBody, forbid_unknown_fields=True, kw_only=True):
    """The body of `POST /api/chat`. Without messages, it loads the model.

    `num_predict` is the limit of tokens if the options have none: Open WebUI sends that of a title there.
    """

    messages: Annotated[list[OllamaMessage], msgspec.Meta(min_length=0)] | None = None
    tools: list[OllamaTool] | None = None
    num_predict: Annotated[int, msgspec.Meta(ge=-2)] | None = None

    def to_request(self) -> chat_pb2.ChatRequest:
        """Return the contract's request. Raise Failure if it can't be served or represented."""
        check_length(chat_pb2.ChatRequest, "messages", self.messages or (), "messages")
        check_length(chat_pb2.ChatRequest, "tools", self.tools or (), "tools")
        request = chat_pb2.ChatRequest(
            model=self.served_model,
            messages=to_messages(self.messages or ()),
            tools=[_to_tool(tool) for tool in self.tools or ()],
        )
        self.set_common(request)
        if self.num_predict is not None and self.num_predict > 0 and not self._options_limit:
            put(request.stopping, "max_tokens", self.num_predict, "num_predict")
        self.set_thinking(request)
        return request

    def caller_name(self, field: str) -> str:
        """Return the caller's name of a field: `messages[0].content[0].text` → `messages.0.content`."""
        name = _CONTENT.sub(r"\1", super().caller_name(field))
        return "num_predict" if name == "options.num_predict" and not self._options_limit else name

    @property
    def _options_limit(self) -> bool:
        """Whether the options have a limit of tokens, which precedes the body's own."""
        return self.options is not None and self.options.num_predict is not None


_DECODER: Final = msgspec.json.Decoder(OllamaChatBody)


class OllamaChatTranslator(OllamaErrors):
    """Translates one chat request."""

    def parse(self, http_request: HttpRequest) -> ParsedRequest[chat_pb2.ChatRequest | model_pb2.KeepModelRequest]:
        """Parse a request. Raise Failure."""
        check_not_resumed(http_request)
        body = decode(http_request.body, _DECODER)
        request = body.to_request()
        if not body.messages:
            check_values(request, body.caller_name)
            for index, tool in enumerate(request.tools):  # an empty name isn't a value that is set
                check_text(tool_pb2.FunctionDefinition, "name", tool.function.name, f"tools.{index}.function.name")
            load = body.load_request()
            return ParsedRequest(
                request=load,
                stream=False,
                encoder=LoadEncoder(body.model or "", chat_fields, load),
                caller_name=body.caller_name,
            )
        return ParsedRequest(
            request=request,
            stream=body.streams,
            encoder=OllamaChatEncoder(body.model or ""),
            caller_name=body.caller_name,
            stream_format=StreamFormat.LINES,
        )


def _to_tool(tool: OllamaTool) -> tool_pb2.Tool:
    function = tool_pb2.FunctionDefinition(name=tool.function.name)
    if tool.function.description is not None:
        function.description = tool.function.description
    if is_given(tool.function.parameters):
        function.parameters = bytes(tool.function.parameters).decode()
    return tool_pb2.Tool(function=function)
