"""Requests of the open inference protocol to requests of `sluice.v1`, by the names of their tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from sluice.inference import inference_pb2
from sluice.v1 import chat_pb2, embedding_pb2, rank_pb2, text_generation_pb2
from sluice.v1.serving_pb2 import ServingOptions

from service.calls.errors import InvalidMessage
from service.contract.inference.chat_messages import to_chat_messages
from service.contract.inference.parameters import Parameters, Target
from service.contract.inference.tensors import Tensor, read_tensors, tensor_path
from service.contract.inference.tools import to_tool_choice, to_tools
from service.contract.parts.rules import Rules
from service.generation.errors import InvalidRequest
from service.generation.requests.parameters import DRAW_PARAMETERS

PROMPT: Final = "text_input"
MESSAGES: Final = "messages"
QUERY: Final = "query"
DOCUMENTS: Final = "documents"
TEXT: Final = "text_output"
TOOL_CALLS: Final = "tool_calls"
_VECTORS: Final = ("embeddings", "scores")  # clients such as perf_analyzer request all outputs of a model
_SUBJECTS: Final = (PROMPT, MESSAGES, QUERY, DOCUMENTS)

# Parameters that request an output, by the output's name.
RETURNS: Final = {
    "finish_reason": "return_finish_reason",
    "num_input_tokens": "return_num_input_tokens",
    "num_output_tokens": "return_num_output_tokens",
}
_CHAT_FIELDS: Final = (
    "reasoning_budget", "continue_final_message", "add_generation_prompt", "chat_template_kwargs",
    "skip_special_tokens", "parallel_tool_calls",
)  # fmt: skip

ContractRequest: TypeAlias = (
    text_generation_pb2.GenerateTextRequest | chat_pb2.ChatRequest | embedding_pb2.EmbedRequest | rank_pb2.ScoreRequest
)
RULES: Final = Rules(
    (
        text_generation_pb2.GenerateTextRequest,
        chat_pb2.ChatRequest,
        embedding_pb2.EmbedRequest,
        rank_pb2.ScoreRequest,
    )
)


@dataclass(frozen=True, slots=True)
class Inference:
    """One inference: a valid request of `sluice.v1`, and how its answer is returned."""

    request: ContractRequest
    stream: bool = False
    timeout_s: float | None = None
    outputs: frozenset[str] = frozenset()  # the names of the output tensors
    prefix: str = ""  # the beginning of the returned text: the prompt, if the request includes it
    paths: Mapping[str, str] = field(default_factory=dict)  # of the parameters in the request, by name


def to_inference(request: inference_pb2.ModelInferRequest, *, makes_vectors: bool) -> Inference:
    """Convert a request. `makes_vectors` is whether the model embeds texts instead of generating them.

    Raise InvalidRequest or InvalidMessage, which name the tensor or the parameter.
    """
    tensors = read_tensors(request)
    subjects: dict[str, Tensor] = {name: tensors[name] for name in _SUBJECTS if name in tensors}
    parameters = Parameters(request, {name: each for name, each in tensors.items() if name not in subjects})
    if subjects.keys() == {MESSAGES}:
        inference = _chat(request, subjects[MESSAGES], parameters)
    elif subjects.keys() == {QUERY, DOCUMENTS}:
        inference = _score(request, subjects, parameters)
    elif subjects.keys() == {PROMPT}:
        convert = _embed if makes_vectors else _generate
        inference = convert(request, subjects[PROMPT], parameters)
    else:
        given = ", ".join(subjects) or "none of them"
        raise InvalidRequest("inputs", f"must have {PROMPT}, {MESSAGES}, or {QUERY} and {DOCUMENTS}, not {given}")
    with naming_fields(inference):
        RULES.check(inference.request)
    return inference


def _generate(request: inference_pb2.ModelInferRequest, prompt: Tensor, parameters: Parameters) -> Inference:
    made = text_generation_pb2.GenerateTextRequest(
        model=request.model_name, model_version=request.model_version, text_input=prompt.text
    )
    excludes_prompt = parameters.flag("exclude_input_in_output")
    if not parameters.has("do_sample") and parameters.has(*DRAW_PARAMETERS):
        made.do_sample = True
    inference = _generation(request, made, parameters, (made, ("do_sample",)))
    if excludes_prompt is not False:
        return inference
    if inference.stream:
        raise InvalidRequest('parameters["exclude_input_in_output"]', "must be true in a stream")
    return replace(inference, prefix=prompt.text)


def _chat(request: inference_pb2.ModelInferRequest, messages: Tensor, parameters: Parameters) -> Inference:
    made = chat_pb2.ChatRequest(model=request.model_name)
    made.messages.extend(to_chat_messages(messages.text, messages.path))
    made.serving.report_timings = True  # for the statistics
    paths = {}
    if (tools := parameters.take("tools")) is not None:
        made.tools.extend(to_tools(tools))
        paths["tools"] = tools.path
    if (choice := parameters.take("tool_choice")) is not None:
        made.tool_choice.CopyFrom(to_tool_choice(choice))
        paths["tool_choice"] = choice.path
    inference = _generation(request, made, parameters, (made, _CHAT_FIELDS))
    calls = {TOOL_CALLS} if made.tools and not request.outputs else set()
    return replace(inference, outputs=inference.outputs | calls, paths={**inference.paths, **paths})


def _generation(
    request: inference_pb2.ModelInferRequest,
    made: text_generation_pb2.GenerateTextRequest | chat_pb2.ChatRequest,
    parameters: Parameters,
    *targets: Target,
) -> Inference:
    """Set the parameters of a generation, and return it."""
    requested = _requested(request, (TEXT, *RETURNS, TOOL_CALLS)) or frozenset({TEXT})
    details = parameters.flag("details")
    requested |= {name for name, flag in RETURNS.items() if parameters.flag(flag) or details}
    inference = Inference(
        made, stream=bool(parameters.flag("stream")), timeout_s=parameters.timeout_s(), outputs=requested
    )
    _set_priority(made.serving, parameters)
    paths = parameters.set_in(*targets, (made.sampling, None), (made.stopping, None), (made.serving, None))
    return replace(inference, paths=paths)


def _embed(request: inference_pb2.ModelInferRequest, texts: Tensor, parameters: Parameters) -> Inference:
    made = embedding_pb2.EmbedRequest(model=request.model_name)
    for text in texts.texts:
        made.inputs.add(text=text)
    return _encoding(request, made, parameters, "embeddings", (made, ("dimensions", "instruction")))


def _score(
    request: inference_pb2.ModelInferRequest, tensors: Mapping[str, Tensor], parameters: Parameters
) -> Inference:
    queries, documents = tensors[QUERY].texts, tensors[DOCUMENTS].texts
    made = rank_pb2.ScoreRequest(model=request.model_name, queries=queries, documents=documents)
    return _encoding(request, made, parameters, "scores", (made.options, None))


def _encoding(
    request: inference_pb2.ModelInferRequest,
    made: embedding_pb2.EmbedRequest | rank_pb2.ScoreRequest,
    parameters: Parameters,
    output: str,
    target: Target,
) -> Inference:
    """Set the parameters of a request without generated text, and return it. `output` is the answer's only tensor."""
    if (requested := _requested(request, _VECTORS)) and output not in requested:
        raise InvalidRequest("outputs", f"must have {output}")
    if parameters.flag("stream"):
        raise InvalidRequest('parameters["stream"]', "must be false: the model generates no text")
    timeout_s = parameters.timeout_s()
    _set_priority(made.serving, parameters)
    return Inference(made, timeout_s=timeout_s, paths=parameters.set_in(target, (made.serving, None)))


def _set_priority(serving: ServingOptions, parameters: Parameters) -> None:
    if (priority := parameters.priority()) is not None:
        serving.priority = priority


def _requested(request: inference_pb2.ModelInferRequest, available: Sequence[str]) -> frozenset[str]:
    """Return the names of the requested output tensors. Raise InvalidRequest for others than the model's."""
    for output in request.outputs:
        path = f'outputs["{output.name}"]'
        if output.name not in available:
            raise InvalidRequest(path, f"the outputs are {', '.join(available)}")
        for name in output.parameters:
            if name.startswith("shared_memory") or name == "classification":
                raise InvalidRequest(path, f"the parameter {name} is not supported")
    return frozenset(output.name for output in request.outputs)


@contextmanager
def naming_fields(inference: Inference) -> Iterator[None]:
    """Let errors of the block name the client's tensors and parameters instead of the contract's fields."""
    try:
        yield
    except InvalidRequest as error:
        error.field = _path(error.field, inference)
        raise
    except InvalidMessage as error:
        violations = [replace(each, field=_path(each.field, inference)) for each in error.violations]
        raise InvalidMessage(violations) from error


def _path(name: str, inference: Inference) -> str:
    """Return the path in the client's request of a field of the contract: `sampling.top_p` → `parameters["top_p"]`."""
    head, _, rest = name.partition(".")
    if head in {"sampling", "stopping", "serving", "options"} and rest:
        last = rest.partition("[")[0].partition(".")[0]
        return inference.paths.get(last, f'parameters["{last}"]') + rest.removeprefix(last)
    plain = head.partition("[")[0]
    if plain == "model":
        return "model_name"
    if plain in inference.paths:
        return inference.paths[plain] + name.removeprefix(plain)
    tensor = {"inputs": PROMPT, "queries": QUERY}.get(plain, plain)
    return tensor_path(tensor) + name.removeprefix(plain) if tensor in _SUBJECTS else name
