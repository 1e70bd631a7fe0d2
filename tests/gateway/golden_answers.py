"""The service's answers in the golden exchanges, with fixed ids and times. Whole answers are folds of streams."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import grpc
from google.protobuf import text_format
from google.protobuf.message import Message
from sluice.inference import inference_pb2
from sluice.v1 import (
    chat_pb2,
    completion_pb2,
    embedding_pb2,
    endpoint_pb2,
    model_pb2,
    quota_pb2,
    rank_pb2,
    response_pb2,
    serving_pb2,
    text_generation_pb2,
    token_pb2,
)

from service.contract.generations.chat_fold import ChatFold
from service.contract.generations.completion_fold import CompletionFold
from service.contract.generations.text_generation_fold import TextFold
from tests.gateway import fakes, response_fakes
from tests.gateway.golden_service import Answer, Answers

MessageT = TypeVar("MessageT", bound=Message)

_CREATED: Final = "created { seconds: 1700000000 nanos: 5 }"
_IDENTITY: Final = f'id: "0af3" {_CREATED} model: "m" system_fingerprint: "fp_1"'
_USAGE: Final = "usage { prompt_tokens: 12 completion_tokens: 9 reasoning_tokens: 2 cached_tokens: 8 }"


def _parse(kind: type[MessageT], *texts: str) -> list[MessageT]:
    return [text_format.Parse(text, kind()) for text in texts]


def _stream(name: str, fold: Any, events: list[Any], status: fakes.Status | None) -> Answers:
    """Return the streaming method's answers and the unary twin's, which fails if the stream does."""
    if status is not None:
        return {f"Stream{name}": [*events, status], name: [status]}
    for event in events:
        fold.add(event)
    return {f"Stream{name}": events, name: [fold.response]}


def chat(*texts: str, status: fakes.Status | None = None) -> Answers:
    events = _parse(chat_pb2.StreamChatResponse, f"started {{ {_IDENTITY} }}", *texts)
    if status is None:
        events += _parse(chat_pb2.StreamChatResponse, _USAGE, "completed {}")
    return _stream("Chat", ChatFold(), events, status)


def _completion(*texts: str, n: int = 1) -> Answers:
    events = _parse(
        completion_pb2.StreamCompleteResponse,
        f"started {{ {_IDENTITY} n: {n} }}",
        *texts,
        _USAGE,
        "completed {}",
    )
    return _stream("Complete", CompletionFold(), events, None)


def _token(text: str, token_id: int, logprob: float, *others: str) -> str:
    top = " ".join(f"top_logprobs {{ {other} }}" for other in others)
    return f'token: "{text}" token_id: {token_id} logprob: {logprob} bytes: "{text}" {top}'


def finished(reason: str = "STOP", index: int = 0) -> str:
    return f"choice_finished {{ choice_index: {index} finish_reason: FINISH_REASON_{reason} }}"


TEXT: Final = ('content_delta { text: "Hel" }', r'content_delta { text: "lo, \"ä\"\n" }')
CHATS: Final = {
    "text": chat(*TEXT, finished()),
    "reasoning": chat('reasoning_delta { text: "hm " }', 'reasoning_delta { text: "so" }', *TEXT, finished()),
    "tools": chat(
        'content_delta { text: "Let me see." }',
        'tool_call_delta { tool_call_index: 0 id: "call_1" name: "look" }',
        r'tool_call_delta { tool_call_index: 0 arguments: "{\"x\": " }',
        'tool_call_delta { tool_call_index: 0 arguments: "1.0}" }',
        'tool_call_delta { tool_call_index: 1 id: "call_2" name: "look" }',
        'tool_call_delta { tool_call_index: 1 arguments: "{}" }',
        finished("TOOL_CALLS"),
    ),
    "logprobs": chat(
        f'content_delta {{ text: "Hel" logprobs {{ {_token("Hel", 5, -0.5, _token("Hel", 5, -0.5))} }} }}',
        'content_delta { text: "ä" logprobs { token: "\\357\\277\\275" token_id: 7 logprob: -1.25 bytes: "\\303" }'
        ' logprobs { token: "\\357\\277\\275" token_id: 8 logprob: -0.125 bytes: "\\244" } }',
        finished("LENGTH"),
    ),
    "choices": chat(
        'content_delta { choice_index: 1 text: "One" }',
        'content_delta { choice_index: 0 text: "Two" }',
        finished("LENGTH", 1),
        finished("STOP", 0),
    ),
}
COMPLETIONS: Final = {
    "text": _completion('delta { text: "Hel" }', r'delta { text: "lo, \"ä\"\n" }', finished("LENGTH")),
    "logprobs": _completion(
        f'delta {{ text: "hi" prompt_logprobs {{ token: "h" token_id: 3 bytes: "h" }} '
        f"prompt_logprobs {{ {_token('i', 4, -2.5, _token('a', 9, -0.75))} }} }}",
        f'delta {{ text: " Hel" logprobs {{ {_token(" Hel", 5, -0.5, _token(" Hel", 5, -0.5))} }} }}',
        finished(),
    ),
    "prompts": _completion(
        *(f'delta {{ choice_index: {index} text: "{index}!" }}' for index in range(4)),
        *(finished("STOP", index) for index in range(4)),
        n=2,
    ),
}
_PROGRESS: Final = [
    f"prompt_progress {{ total_tokens: 12 cached_tokens: 4 processed_tokens: {number} elapsed {{ {elapsed} }} }}"
    for number, elapsed in ((8, "nanos: 812999999"), (12, "seconds: 1 nanos: 500000000"))
]
CHAT_WITH_PROGRESS: Final = chat(*_PROGRESS, *TEXT, finished())
COMPLETION_WITH_PROGRESS: Final = _completion(*_PROGRESS, 'delta { text: "Hel" }', finished("LENGTH"))
_TIMINGS: Final = text_format.Parse(
    "queue_wait { nanos: 1000000 } first_token { nanos: 81000000 } decode { nanos: 39000000 }",
    serving_pb2.RequestTimings(),
)


def timed(answers: Answers) -> Answers:
    """Return answers of a chat or a completion with their measured times."""
    items: Any = answers.items()
    (_, [*earlier, last]), (name, [whole]) = items
    completed, response = type(last)(), type(whole)()
    completed.CopyFrom(last)
    completed.completed.timings.CopyFrom(_TIMINGS)
    response.CopyFrom(whole)
    response.timings.CopyFrom(_TIMINGS)
    return {f"Stream{name}": [*earlier, completed], name: [response]}


VECTORS: Final[Answers] = {
    "Embed": _parse(
        embedding_pb2.EmbedResponse,
        f'id: "0af3" {_CREATED} model: "m" embeddings {{ index: 0 values: 0.5 values: -0.25 }}'
        " embeddings { index: 1 values: 0.1 values: 1 } usage { prompt_tokens: 7 }",
    )
}
RANKS: Final[Answers] = {
    "Rank": _parse(
        rank_pb2.RankResponse,
        f'id: "0af3" {_CREATED} model: "m" results {{ index: 1 score: 0.75 }} results {{ index: 0 score: -0.25 }}'
        " usage { prompt_tokens: 7 }",
    ),
    "Score": _parse(
        rank_pb2.ScoreResponse,
        f'id: "0af3" {_CREATED} model: "m" scores: 0.75 scores: -0.25 usage {{ prompt_tokens: 7 }}',
    ),
}
_EACH_TIME: Final = "tokens { nanos: 12500000 } tokens { nanos: 15000000 } tokens { nanos: 15123456 }"


def _times(decode_ns: int) -> str:
    fixed = "queue_wait { nanos: 250400 } first_token { nanos: 12500000 } batch_size: 4"
    return f"{fixed} decode {{ nanos: {decode_ns} }}"


def _generation(end: str) -> Answers:
    events = _parse(
        text_generation_pb2.StreamGenerateTextResponse,
        'started { id: "0af3" model: "m" model_version: "2" }',
        f'delta {{ text: "Hel" num_generated_tokens: 1 timings {{ {_times(0)} }} }}',
        f'delta {{ text: "lo, ä" num_generated_tokens: 3 timings {{ {_times(30123456)} }} }}',
        f"finished {{ {end} num_generated_tokens: 3 timings {{ {_times(30123456)} {_EACH_TIME} }} }}",
        _USAGE,
        "completed {}",
    )
    return _stream("GenerateText", TextFold(), events, None)


GENERATION: Final = _generation("finish_reason: FINISH_REASON_STOP")
STOPPED_GENERATION: Final = _generation('finish_reason: FINISH_REASON_STOP stop_sequence: "END"')


def response(name: str, status: fakes.Status | None = None) -> Answers:
    """Return a recorded response of tests/golden/responses, interrupted in the middle by the status, if given."""
    events = response_fakes.recorded(name)
    if status is not None:
        return {"StreamResponse": [*events[: len(events) // 2], status], "CreateResponse": [status]}
    ended = events[-1].completed if events[-1].HasField("completed") else events[-1].incomplete
    return {"StreamResponse": events, "CreateResponse": [response_pb2.CreateResponseResponse(response=ended.response)]}


_OWN: Final = (
    f'name: "m" task: TASK_CHAT entities {{ name: "m" model: "m" traffic_percentage: 100 }} {_CREATED}'
    " updated { seconds: 1700000000 } config_version: 1 is_model: true"
)
_MADE: Final = (
    'name: "ab" task: TASK_CHAT entities { name: "one" model: "m" traffic_percentage: 90 }'
    f' entities {{ name: "two" model: "m" traffic_percentage: 10 }} {_CREATED}'
    " updated { seconds: 1700000060 nanos: 1000000 } config_version: 2"
)
_ENCODER: Final = (
    f'name: "e" task: TASK_EMBEDDING entities {{ name: "e" model: "e" traffic_percentage: 100 }} {_CREATED}'
    " updated { seconds: 1700000000 } config_version: 1 is_model: true"
)
ENDPOINTS: Final[Answers] = {
    "ListEndpoints": _parse(
        endpoint_pb2.ListEndpointsResponse,
        " ".join(f"endpoints {{ {each} }}" for each in (_OWN, _ENCODER, _MADE)),
    ),
    "GetEndpoint": _parse(endpoint_pb2.GetEndpointResponse, f"endpoint {{ {_MADE} }}"),
    "CreateEndpoint": _parse(endpoint_pb2.CreateEndpointResponse, f"endpoint {{ {_MADE} }}"),
    "UpdateEndpoint": _parse(endpoint_pb2.UpdateEndpointResponse, f"endpoint {{ {_MADE} }}"),
    "DeleteEndpoint": [endpoint_pb2.DeleteEndpointResponse()],
}
SERVED: Final[Answers] = {
    "ListEndpoints": _parse(endpoint_pb2.ListEndpointsResponse, f"endpoints {{ {_OWN} }} endpoints {{ {_ENCODER} }}")
}
_MODEL: Final = (
    f'name: "m" {_CREATED} tasks: TASK_CHAT architecture: "LlamaForCausalLM" max_model_len: 2048 vocab_size: 1000'
    ' system_fingerprint: "fp_1" version: "2"'
)
MODELS: Final[Answers] = {
    "ModelMetadata": _parse(
        inference_pb2.ModelMetadataResponse,
        'name: "m" versions: "2" platform: "LlamaForCausalLM"'
        ' inputs { name: "text_input" datatype: "BYTES" shape: 1 }'
        ' outputs { name: "text_output" datatype: "BYTES" shape: 1 }',
    ),
    "ListModels": _parse(model_pb2.ListModelsResponse, f'models {{ {_MODEL} }} models {{ name: "org/b" {_CREATED} }}'),
    "GetModel": _parse(model_pb2.GetModelResponse, f"model {{ {_MODEL} }}"),
    "KeepModel": _parse(model_pb2.KeepModelResponse, f"model {{ {_MODEL} }}"),
}

TENSORS: Final[Answers] = {
    "ModelInfer": _parse(
        inference_pb2.ModelInferResponse,
        'model_name: "m" model_version: "1" id: "7"'
        ' outputs { name: "text_output" datatype: "BYTES" shape: 1 contents { bytes_contents: "Hello" } }'
        ' outputs { name: "num_output_tokens" datatype: "UINT32" shape: 1 contents { uint_contents: 3 } }',
    ),
}

KEY_USAGE: Final[Answers] = {
    "GetUsage": _parse(
        quota_pb2.GetUsageResponse,
        'key: "team" since { seconds: 1 } models { model: "m" requests: 2 input_tokens: 30 output_tokens: 4 }'
        ' limits { quota_metric: "requests_per_minute" limit: 60 remaining: 58 reset_after { seconds: 2 } }'
        ' limits { quota_metric: "concurrent_requests" model: "a*" limit: 4 remaining: 0 }'
        ' limits { quota_metric: "max_tokens" limit: 100 }',
    )
}

COUNT: Final[Answers] = {
    "CountTokens": _parse(token_pb2.CountTokensResponse, 'model: "m" num_tokens: 12 max_model_len: 2048')
}

TOKENS: Final[Answers] = {
    "CountTokens": _parse(
        token_pb2.CountTokensResponse,
        r'model: "m" num_tokens: 2 max_model_len: 2048 token_ids: [5, 6] tokens: "hi" tokens: "\303"',
    ),
    "DetokenizeText": _parse(token_pb2.DetokenizeTextResponse, 'model: "m" text: "hi"'),
}

FULL: Final = fakes.Status(
    grpc.StatusCode.RESOURCE_EXHAUSTED, "the queue is full", fakes.error_info("QUEUE_FULL"), fakes.retry_info(2.5)
)
FAULT: Final = fakes.Status(grpc.StatusCode.INTERNAL, "internal error; r-1", fakes.error_info("INTERNAL"))
LONG: Final = fakes.Status(
    grpc.StatusCode.INVALID_ARGUMENT,
    "messages: 3000 tokens and one of answer do not fit into the context of 2048",
    fakes.error_info("PROMPT_TOO_LONG", field="messages", num_prompt_tokens="3000", limit="2048"),
    fakes.bad_request(messages="3000 tokens and one of answer do not fit into the context of 2048"),
)
NOBODY: Final = fakes.Status(
    grpc.StatusCode.NOT_FOUND, "the model 'x' does not exist", fakes.error_info("MODEL_NOT_FOUND", model="x")
)
TAKEN: Final = fakes.Status(
    grpc.StatusCode.ALREADY_EXISTS, "the name 'ab' is taken", fakes.error_info("ENDPOINT_EXISTS", endpoint="ab")
)
FIXED: Final = fakes.Status(
    grpc.StatusCode.FAILED_PRECONDITION, "'m' is a model's own", fakes.error_info("ENDPOINT_READ_ONLY", endpoint="m")
)
STATUSES: Final = {"full": FULL, "fault": FAULT, "long": LONG, "nobody": NOBODY}


def refused(status: Answer) -> Answers:
    """Every method ends with this status at once, including lookups of a model."""
    methods = ("Chat", "StreamChat", "Complete", "StreamComplete", "Embed", "CreateResponse", "StreamResponse",
               "GenerateText", "StreamGenerateText", "CreateEndpoint", "UpdateEndpoint", "DeleteEndpoint",
               "GetEndpoint")  # fmt: skip
    return {**MODELS, **SERVED, **{name: [status] for name in methods}}


CUT_OFF: Final = chat(TEXT[0], _USAGE, status=FAULT)
CUT_OFF_GENERATION: Final[Answers] = {"StreamGenerateText": [*GENERATION["StreamGenerateText"][:2], FAULT]}
