"""A response in the JSON of OpenAI's responses API: the object, its items and its usage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec
import orjson
from sluice.v1 import chat_pb2, error_pb2, response_item_pb2
from sluice.v1.usage_pb2 import Usage

from gateway.dialects.openai_family.answers.token_list import to_token_list
from gateway.dialects.openai_family.chat.body import EFFORT_NAMES
from gateway.dialects.openai_family.parameters.custom_input import input_of
from gateway.dialects.openai_family.parameters.sampling import OpenAINumbers
from gateway.dialects.openai_family.parameters.service_tier import TIER
from gateway.dialects.openai_family.responses.body import ResponseBody
from gateway.dialects.openai_family.responses.known_tool import known_call
from gateway.dialects.openai_family.responses.response_id import written_conversation_id, written_id
from gateway.dialects.openai_family.responses.tool_kind import ClientTool, NamespaceTool, namespaces_of

_STATUSES: Final = {
    response_item_pb2.RESPONSE_STATUS_IN_PROGRESS: "in_progress",
    response_item_pb2.RESPONSE_STATUS_COMPLETED: "completed",
    response_item_pb2.RESPONSE_STATUS_INCOMPLETE: "incomplete",
    response_item_pb2.RESPONSE_STATUS_QUEUED: "queued",
    response_item_pb2.RESPONSE_STATUS_FAILED: "failed",
    response_item_pb2.RESPONSE_STATUS_CANCELLED: "cancelled",
}
_INVALID_PROMPT: Final = frozenset(  # reasons whose code is invalid_prompt; the others' code is server_error
    {
        error_pb2.ERROR_REASON_INVALID_FIELD,
        error_pb2.ERROR_REASON_PROMPT_TOO_LONG,
        error_pb2.ERROR_REASON_CONSTRAINT_FAILED,
    }
)
_INCOMPLETE_REASONS: Final = {
    chat_pb2.FINISH_REASON_LENGTH: "max_output_tokens",
    chat_pb2.FINISH_REASON_CONTENT_FILTER: "content_filter",
}


_DEFAULTS: Final = {  # fields that clients expect in every response
    "conversation": None,
    "moderation": None,
    "previous_response_id": None,
    "prompt": None,
    "service_tier": TIER,
}


class _KeptFields(msgspec.Struct):
    """The fields of a request that its stored response has, too."""

    given: dict[str, float | None]
    echo: dict[str, msgspec.Raw]


_KEPT: Final = msgspec.json.Decoder(_KeptFields)
_KEPT_TOOLS: Final = msgspec.json.Decoder(list[ClientTool | NamespaceTool])


@dataclass(frozen=True, slots=True)
class ResponseObject:
    """Writes the responses of one request, with its echoed fields and given numbers."""

    given: dict[str, float | None]
    echo: dict[str, Any]
    namespaces: dict[str, tuple[str, str]]  # and names of functions, by their names in the contract

    @classmethod
    def from_body(cls, body: ResponseBody) -> ResponseObject:
        """Return the writer for a request."""
        given = {name: getattr(body, name) for name in OpenAINumbers.__struct_fields__}
        return cls(given, body.echo(), namespaces_of(body.tools or ()))

    @classmethod
    def from_client_data(cls, data: bytes) -> ResponseObject:
        """Return the writer for a stored response; without `data` of `client_data`, one with the defaults."""
        default = cls.from_body(ResponseBody(input=""))
        try:
            kept = _KEPT.decode(data)
            reasoning = msgspec.json.decode(kept.echo["reasoning"], type=dict[str, str | None])
            tools = _KEPT_TOOLS.decode(kept.echo["tools"])
        except (
            msgspec.MsgspecError,
            UnicodeDecodeError,
            RecursionError,
            KeyError,
        ):  # another client has stored the response
            return default
        given = {name: kept.given.get(name) for name in default.given}
        echo = {name: orjson.Fragment(bytes(kept.echo.get(name, b"null"))) for name in default.echo}
        return cls(given, echo | {"reasoning": default.echo["reasoning"] | reasoning}, namespaces_of(tools))

    def client_data(self) -> bytes:
        """Return the data to store with a response, from which `from_client_data` returns the same writer."""
        return orjson.dumps({"given": self.given, "echo": self.echo})

    def write(self, response: response_item_pb2.Response) -> dict[str, Any]:
        """Return the object. It has the effective parameters; a number from the request keeps its exact value."""
        sampling = response.sampling
        numbers = {
            name: _decimal(getattr(sampling, name)) if value is None else value for name, value in self.given.items()
        }
        effort = EFFORT_NAMES.get(response.reasoning_effort, self.echo["reasoning"]["effort"])
        reason = _INCOMPLETE_REASONS.get(response.incomplete_reason)
        conversation, previous_id = response.conversation, response.previous_response_id
        return {
            "id": written_id(response.id),
            "object": "response",
            "created_at": response.created.seconds,
            "completed_at": response.completed.seconds if response.HasField("completed") else None,
            "status": _STATUSES[response.status],
            "error": _error(response.error) if response.HasField("error") else None,
            "incomplete_details": None if reason is None else {"reason": reason},
            "model": response.model,
            "system_fingerprint": response.system_fingerprint,
            "output": [self.item(item) for item in response.output],
            "usage": to_usage(response.usage) if response.HasField("usage") else None,
            "metadata": dict(response.metadata),
            **numbers,
            **self.echo,
            "reasoning": self.echo["reasoning"] | {"effort": effort},
            **_DEFAULTS,
            "background": response.background,
            **({"conversation": {"id": written_conversation_id(conversation)}} if conversation else {}),
            "previous_response_id": written_id(previous_id) if previous_id else None,
            "store": response.stored,
            **({"store_error": response.store_error} if response.store_error else {}),
            **({"receipt": response.receipt} if response.receipt else {}),
        }

    def item(self, item: response_item_pb2.OutputItem) -> dict[str, Any]:
        """Return an item of `output`."""
        shared = {"id": item.id, "type": item.WhichOneof("item"), "status": _STATUSES[item.status]}
        match item.WhichOneof("item"):
            case "message":
                return {**shared, "role": "assistant", "content": [to_part(part) for part in item.message.content]}
            case "function_call":
                is_complete = item.status == response_item_pb2.RESPONSE_STATUS_COMPLETED
                if is_complete and (known := known_call(item.function_call)) is not None:
                    return shared | known
                namespace, name = self.namespaces.get(item.function_call.name, ("", item.function_call.name))
                call = to_call(item.function_call) | {"name": name, **({"namespace": namespace} if namespace else {})}
                return shared | call
            case _:
                reasoning = {"type": "reasoning_text", "text": item.reasoning.text}
                return {**shared, "summary": [], "content": [reasoning] if item.reasoning.text else []}


def _error(error: response_item_pb2.ResponseError) -> dict[str, str]:
    """Return the error of a failed response, with one of the codes that clients know."""
    return {"code": "invalid_prompt" if error.reason in _INVALID_PROMPT else "server_error", "message": error.message}


def _decimal(number: float) -> float:
    """Round a 32-bit float of the contract to its seven significant digits: 0.3, not 0.30000001192092896."""
    return float(f"{number:.7g}")


def to_call(call: response_item_pb2.FunctionCallItem) -> dict[str, Any]:
    """Return the fields of a call that depend on the kind of its tool."""
    named = {"call_id": call.call_id, "name": call.name}
    if call.custom:
        return {"type": "custom_tool_call", **named, "input": input_of(call.arguments)}
    return {"type": "function_call", **named, "arguments": call.arguments}


def to_part(part: response_item_pb2.OutputText) -> dict[str, Any]:
    """Return a part of a message."""
    return {"type": "output_text", "text": part.text, "annotations": [], "logprobs": to_token_list(part.logprobs)}


def to_usage(usage: Usage) -> dict[str, Any]:
    """Return `usage` of a response. Cache writes are 0, because they have no price here."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
