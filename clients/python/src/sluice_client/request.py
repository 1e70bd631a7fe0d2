"""Request messages from plain values: conversations, tools, and options named as in the contract."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, TypedDict, TypeVar

from google.protobuf.message import Message as Proto

from sluice_client.prompts import to_prompts
from sluice_client.v1 import (
    chat_pb2,
    completion_pb2,
    content_pb2,
    embedding_pb2,
    prompt_pb2,
    rank_pb2,
    response_item_pb2,
    response_pb2,
    sampling_pb2,
    serving_pb2,
    tool_pb2,
)

Conversation: TypeAlias = "str | Sequence[content_pb2.Message | Mapping[str, str]]"
Prompts: TypeAlias = "str | Sequence[str] | Sequence[int] | Sequence[prompt_pb2.Prompt]"
R = TypeVar("R", bound=Proto)

_ROLES: Final[dict[str, content_pb2.Role.ValueType]] = {
    "system": content_pb2.ROLE_SYSTEM,
    "user": content_pb2.ROLE_USER,
    "assistant": content_pb2.ROLE_ASSISTANT,
}
_EFFORTS: Final = {
    "none": chat_pb2.REASONING_EFFORT_NONE,
    "low": chat_pb2.REASONING_EFFORT_LOW,
    "medium": chat_pb2.REASONING_EFFORT_MEDIUM,
    "high": chat_pb2.REASONING_EFFORT_HIGH,
}
_CHOICES: Final = {
    "none": tool_pb2.TOOL_CHOICE_MODE_NONE,
    "auto": tool_pb2.TOOL_CHOICE_MODE_AUTO,
    "required": tool_pb2.TOOL_CHOICE_MODE_REQUIRED,
}
_GROUPS: Final[tuple[tuple[str, type[Proto]], ...]] = (
    ("sampling", sampling_pb2.SamplingParams),
    ("stopping", sampling_pb2.StopParams),
    ("serving", serving_pb2.ServingOptions),
    ("options", rank_pb2.RankOptions),
)


class Options(TypedDict, total=False):
    """Options of every request that generates. The contract's messages, named in the comments, document them."""

    model: str
    # SamplingParams
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    typical_p: float
    frequency_penalty: float
    presence_penalty: float
    repetition_penalty: float
    seed: int
    logit_bias: Mapping[int, float]
    watermark: bool
    allowed_token_ids: Sequence[int]
    # ServingOptions
    priority: int
    cache_salt: str
    error_behavior: serving_pb2.ErrorBehavior.ValueType
    deployment: str
    slo_first_token_seconds: float
    slo_token_seconds: float
    receipt: bool
    # OutputConstraint, as one of these
    json_schema: Mapping[str, Any]
    json_object: bool
    regex: str
    one_of: Sequence[str]
    # LogprobsOptions
    top_logprobs: int


class StoppingOptions(Options, total=False):
    """Options of requests with stop conditions: StopParams."""

    max_tokens: int
    min_tokens: int
    stop: str | Sequence[str]
    stop_token_ids: Sequence[int]
    ignore_eos: bool
    include_stop_str_in_output: bool


class AnswerOptions(TypedDict, total=False):
    """Further options of chats and responses."""

    tools: Sequence[tool_pb2.Tool]
    tool_choice: str  # none, auto, required, or a function's name
    parallel_tool_calls: bool
    reasoning_effort: str  # none, low, medium, high


class ChatOptions(StoppingOptions, AnswerOptions, total=False):
    """Options of chats."""

    n: int
    reasoning_budget: int
    continue_final_message: bool
    add_generation_prompt: bool
    chat_template_kwargs: Mapping[str, Any]
    skip_special_tokens: bool
    report_progress: bool  # of ServingOptions, for streams


class CompletionOptions(StoppingOptions, total=False):
    """Options of completions."""

    n: int
    suffix: str
    echo: bool
    use_raw_prompt: bool
    prompt_only: bool
    skip_special_tokens: bool
    report_progress: bool  # of ServingOptions, for streams


class ResponseOptions(Options, AnswerOptions, total=False):
    """Options of responses."""

    instructions: str
    max_tokens: int  # `max_output_tokens` in the contract
    max_tool_calls: int
    metadata: Mapping[str, str]
    store: bool
    previous_response_id: str
    background: bool


class EmbedOptions(TypedDict, total=False):
    """Options of embedding requests."""

    model: str
    dimensions: int
    instruction: str
    input_type: embedding_pb2.InputType.ValueType
    priority: int
    cache_salt: str
    error_behavior: serving_pb2.ErrorBehavior.ValueType
    deployment: str


class RankOptions(TypedDict, total=False):
    """Options of ranking requests."""

    model: str
    top_n: int
    max_tokens_per_document: int
    instruction: str
    raw_scores: bool
    priority: int
    cache_salt: str
    error_behavior: serving_pb2.ErrorBehavior.ValueType
    deployment: str


def message(role: str, text: str, *, name: str | None = None) -> content_pb2.Message:
    """Return one turn of a conversation. The role is system, user or assistant."""
    if role not in _ROLES:
        raise ValueError(f"role must be one of {', '.join(_ROLES)}, not {role!r}; tool_result() makes a tool's message")
    return content_pb2.Message(role=_ROLES[role], content=[content_pb2.ContentPart(text=text)], name=name)


def tool_result(call: tool_pb2.ToolCall, text: str) -> content_pb2.Message:
    """Return the message with a tool call's result, to be sent after the assistant's message that has the call."""
    return content_pb2.Message(
        role=content_pb2.ROLE_TOOL, content=[content_pb2.ContentPart(text=text)], tool_call_id=call.id
    )


def function(
    name: str, description: str = "", parameters: Mapping[str, Any] | None = None, *, strict: bool = False
) -> tool_pb2.Tool:
    """Return a function that the model may call; `parameters` is a JSON schema."""
    text = "" if parameters is None else json.dumps(parameters, ensure_ascii=False)
    definition = tool_pb2.FunctionDefinition(name=name, description=description, parameters=text, strict=strict)
    return tool_pb2.Tool(function=definition)


def chat_request(conversation: Conversation, options: Mapping[str, Any]) -> chat_pb2.ChatRequest:
    """Return the request of a chat."""
    return _with(chat_pb2.ChatRequest(messages=_messages(conversation)), options)


def complete_request(prompts: Prompts, options: Mapping[str, Any]) -> completion_pb2.CompleteRequest:
    """Return the request of a completion."""
    return _with(completion_pb2.CompleteRequest(prompts=to_prompts(prompts)), options)


def response_request(conversation: Conversation, options: Mapping[str, Any]) -> response_pb2.CreateResponseRequest:
    """Return the request that creates a response."""
    items = [
        response_item_pb2.InputItem(message=response_item_pb2.InputMessage(role=each.role, content=each.content))
        for each in _messages(conversation)
    ]
    options = {"max_output_tokens" if name == "max_tokens" else name: value for name, value in options.items()}
    return _with(response_pb2.CreateResponseRequest(input=items), options)


def embed_request(inputs: Prompts, options: Mapping[str, Any]) -> embedding_pb2.EmbedRequest:
    """Return the request to embed texts."""
    return _with(embedding_pb2.EmbedRequest(inputs=to_prompts(inputs)), options)


def rank_request(query: str, documents: Sequence[str], options: Mapping[str, Any]) -> rank_pb2.RankRequest:
    """Return the request to rank documents."""
    return _with(rank_pb2.RankRequest(query=query, documents=documents), options)


def _messages(conversation: Conversation) -> list[content_pb2.Message]:
    if isinstance(conversation, str):
        return [message("user", conversation)]
    return [
        each if isinstance(each, content_pb2.Message) else message(each["role"], each["content"])
        for each in conversation
    ]


def _with(request: R, options: Mapping[str, Any]) -> R:
    """Return the request with each option set in the message that has a field of its name."""
    for name, value in options.items():
        if value is not None and not _set_special(request, name, value):
            _set(_owner(request, name), name, value)
    return request


def _owner(request: Any, name: str) -> Any:
    fields = request.DESCRIPTOR.fields_by_name
    if name in fields:
        return request
    for group, kind in _GROUPS:
        if group in fields and name in kind.DESCRIPTOR.fields_by_name:
            return getattr(request, group)
    raise TypeError(f"{type(request).__name__} has no option {name!r}")


def _set(message: Any, name: str, value: Any) -> None:
    target = getattr(message, name)
    if hasattr(target, "update") and isinstance(value, Mapping):
        target.update(value)
    elif hasattr(target, "extend"):
        target.extend([value] if isinstance(value, str) else value)
    else:
        setattr(message, name, value)


def _set_special(request: Any, name: str, value: Any) -> bool:
    """Set an option whose form differs from the contract's. Return False for any other option."""
    match name:
        case "json_schema" | "json_object" | "regex" | "one_of":
            _set_constraint(request.output_constraint, name, value)
        case "chat_template_kwargs":
            request.chat_template_kwargs = json.dumps(value, ensure_ascii=False)
        case "top_logprobs":
            request.logprobs.top_logprobs = value
        case "tool_choice" if value in _CHOICES:
            request.tool_choice.mode = _CHOICES[value]
        case "tool_choice":
            request.tool_choice.function_name = value
        case "reasoning_effort":
            request.reasoning_effort = _EFFORTS[value]
        case _:
            return False
    return True


def _set_constraint(constraint: sampling_pb2.OutputConstraint, name: str, value: Any) -> None:
    match name:
        case "json_schema":
            schema = json.dumps(value, ensure_ascii=False)
            constraint.json_schema.CopyFrom(sampling_pb2.JsonSchema(name="answer", schema=schema))
        case "json_object" if value:
            constraint.json_object.SetInParent()
        case "regex":
            constraint.regex = value
        case "one_of":
            constraint.choice.texts.extend(value)
