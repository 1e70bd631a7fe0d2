"""Ollama's `POST /api/generate`: one answer to a prompt, in the model's chat template or raw."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from sluice.v1 import chat_pb2, completion_pb2, content_pb2, prompt_pb2

from gateway.dialects.ollama.body import OllamaBody, check_not_resumed
from gateway.dialects.ollama.encoder import LoadEncoder, OllamaChatEncoder, OllamaCompletionEncoder
from gateway.dialects.ollama.error import OllamaErrors
from gateway.dialects.ollama.line import generate_fields
from gateway.dialects.ollama.message import image_parts
from gateway.dialects.seam.contract_limit import check_length, check_values
from gateway.dialects.seam.encoder import StreamFormat
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.json_body import decode
from gateway.dialects.seam.translator import ParsedRequest

_REJECTED: Final = {
    "suffix": "models don't fill in the middle of a text",
    "template": "prompts have the model's own chat template; with raw, the prompt has any form",
    "context": "send the conversation to /api/chat",
    "width": "models generate no images",
    "height": "models generate no images",
    "steps": "models generate no images",
}
_NOT_RAW: Final = ("system", "images", "think")


class OllamaGenerateBody(OllamaBody, forbid_unknown_fields=True, kw_only=True):
    """The body of `POST /api/generate`. Without a prompt, it loads the model."""

    prompt: str | None = None
    system: str | None = None
    images: list[str] | None = None
    raw: bool | None = None
    suffix: str | None = None
    template: str | None = None
    context: list[int] | None = None
    width: int | None = None
    height: int | None = None
    steps: int | None = None

    def check(self) -> None:
        """Raise Failure for fields that are not supported, or contradict each other."""
        super().check()
        for name, reason in _REJECTED.items():
            if getattr(self, name):
                raise Failure.of_field(name, f"not supported: {reason}", Reason.UNSUPPORTED_FIELD)
        for name in _NOT_RAW if self.raw else ():
            if getattr(self, name):
                raise Failure.of_field(name, "can't be combined with raw")

    def to_request(self) -> chat_pb2.ChatRequest | completion_pb2.CompleteRequest:
        """Return the contract's request: a completion for a raw prompt, otherwise a chat. Raise Failure."""
        request = self._completion() if self.raw else self._chat()
        self.set_common(request)
        return request

    def caller_name(self, field: str) -> str:
        """Return the caller's name of a field: `messages[1].content[0].text` → `prompt`."""
        name = super().caller_name(field)
        if name.startswith("prompts"):
            return "prompt"
        if not name.startswith("messages"):
            return name
        last = f"messages.{1 if self.system else 0}"
        if not name.startswith(last):
            return "system" if name.startswith("messages.0") else "prompt"
        index = name.removeprefix(f"{last}.content.").partition(".")[0]
        return f"images.{int(index) - 1}" if index.isdecimal() and index != "0" else "prompt"

    def _completion(self) -> completion_pb2.CompleteRequest:
        return completion_pb2.CompleteRequest(
            model=self.served_model, prompts=[prompt_pb2.Prompt(text=self.prompt or "")]
        )

    def _chat(self) -> chat_pb2.ChatRequest:
        request = chat_pb2.ChatRequest(model=self.served_model)
        if self.system:
            request.messages.add(role=content_pb2.ROLE_SYSTEM).content.add(text=self.system)
        check_length(content_pb2.Message, "content", self.images or (), "images")
        content = request.messages.add(role=content_pb2.ROLE_USER).content
        content.add(text=self.prompt or "")
        content.extend(image_parts(self.images or (), "images"))
        self.set_thinking(request)
        return request


_DECODER: Final = msgspec.json.Decoder(OllamaGenerateBody)


class OllamaGenerateTranslator(OllamaErrors):
    """Translates one generation request."""

    def parse(self, http_request: HttpRequest) -> ParsedRequest[Any]:
        """Parse a request. Raise Failure."""
        check_not_resumed(http_request)
        body = decode(http_request.body, _DECODER)
        model = body.model or ""
        request = body.to_request()
        if not body.prompt:
            check_values(request, body.caller_name)
            load = body.load_request()
            return ParsedRequest(
                request=load,
                stream=False,
                encoder=LoadEncoder(model, generate_fields, load),
                caller_name=body.caller_name,
            )
        return ParsedRequest(
            request=request,
            stream=body.streams,
            encoder=OllamaCompletionEncoder(model) if body.raw else OllamaChatEncoder(model, generate_fields),
            caller_name=body.caller_name,
            stream_format=StreamFormat.LINES,
        )
