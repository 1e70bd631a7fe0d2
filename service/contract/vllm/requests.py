"""Requests of vLLM's engine service to requests of `sluice.v1`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from sluice.v1 import completion_pb2, embedding_pb2, logprobs_pb2
from sluice.v1.sampling_pb2 import OutputConstraint, SamplingParams, StopParams
from sluice.vllm import engine_pb2

from service.calls.errors import InvalidMessage
from service.contract.parts.rules import Rules
from service.generation.errors import InvalidRequest, UnsupportedFeature

RULES: Final = Rules((completion_pb2.CompleteRequest, embedding_pb2.EmbedRequest))

_NO_IMAGES: Final = "has images or videos, which are not supported here; ChatService and the REST API take images"
_NO_TRANSFER: Final = "is not supported: cache blocks are not transferred between servers"
_UNSUPPORTED: Final = {  # fields of GenerateRequest that change the answer in a way that isn't supported
    "kv_transfer_params": _NO_TRANSFER, "kv_transfer_params_json": _NO_TRANSFER,
    "mm_inputs": _NO_IMAGES, "extra_mm_inputs": _NO_IMAGES, "media_refs": _NO_IMAGES,
}  # fmt: skip
_SCHEMA_NAME: Final = "schema"
_SEEDS: Final = 2**64  # a negative seed is one of the upper half
_PARAMETERS: Final = "sampling_params"


def to_completion(request: engine_pb2.GenerateRequest, model: str) -> completion_pb2.CompleteRequest:
    """Return the completion of one prompt by `model`. Raise InvalidRequest or InvalidMessage.

    The errors name the client's fields.
    """
    for name, reason in _UNSUPPORTED.items():
        field = request.DESCRIPTOR.fields_by_name[name]
        if getattr(request, name) if field.is_repeated else request.HasField(name):
            raise UnsupportedFeature(name, reason)
    if request.data_parallel_rank:
        raise InvalidRequest("data_parallel_rank", "must be 0: there is one rank")
    given = request.sampling_params
    made = completion_pb2.CompleteRequest(
        model=model, sampling=_sampling(given), stopping=_stopping(given), n=given.n or None
    )
    made.tokens.ids = True
    _set_prompt(made, request)
    for name in ("logprobs", "prompt_logprobs"):
        if given.HasField(name):
            getattr(made, name).CopyFrom(_logprobs(getattr(given, name), name))
    _set_constraint(made.output_constraint, given)
    with naming_fields(request):
        RULES.check(made)
    return made


def to_embedding(request: engine_pb2.EmbedRequest, model: str) -> embedding_pb2.EmbedRequest:
    """Return the request for the embedding of one prompt by `model`. Raise InvalidRequest or InvalidMessage."""
    if not request.tokenized.input_ids:
        raise InvalidRequest("tokenized.input_ids", "is required")
    made = embedding_pb2.EmbedRequest(model=model)
    made.inputs.add().token_ids.ids.extend(request.tokenized.input_ids)
    with naming_fields(request):
        RULES.check(made)
    return made


def _set_prompt(made: completion_pb2.CompleteRequest, request: engine_pb2.GenerateRequest) -> None:
    """Set the prompt, without the beginning that the client wants removed."""
    params = request.sampling_params
    limits_prompt = params.HasField("truncate_prompt_tokens")
    if limits_prompt and params.truncate_prompt_tokens < 1:
        raise UnsupportedFeature(f"{_PARAMETERS}.truncate_prompt_tokens", "must be at least 1")
    if request.WhichOneof("input") == "text":
        if limits_prompt:
            raise UnsupportedFeature(f"{_PARAMETERS}.truncate_prompt_tokens", "needs a prompt of token ids")
        made.prompts.add(text=request.text)
        return
    if not request.tokenized.input_ids:
        raise InvalidRequest("tokenized.input_ids", "is required, or text")
    kept = params.truncate_prompt_tokens if limits_prompt else 0
    made.prompts.add().token_ids.ids.extend(request.tokenized.input_ids[-kept:])


def _sampling(given: engine_pb2.SamplingParams) -> SamplingParams:
    """Return the parameters, each with a value: a router sends those of the model that it wants to apply."""
    for token_id in given.logit_bias:
        if token_id < 0:
            raise InvalidRequest(f"{_PARAMETERS}.logit_bias", f"has the token id {token_id}, which is negative")
    return SamplingParams(
        temperature=given.temperature if given.HasField("temperature") else 1.0,
        top_p=given.top_p or 1.0,
        top_k=given.top_k,
        min_p=given.min_p,
        frequency_penalty=given.frequency_penalty,
        presence_penalty=given.presence_penalty,
        repetition_penalty=given.repetition_penalty or 1.0,
        seed=given.seed % _SEEDS if given.HasField("seed") else None,
        logit_bias=dict(given.logit_bias),
    )


def _stopping(given: engine_pb2.SamplingParams) -> StopParams:
    return StopParams(
        max_tokens=given.max_tokens if given.HasField("max_tokens") else None,
        min_tokens=given.min_tokens or None,
        stop=given.stop,
        stop_token_ids=given.stop_token_ids,
        ignore_eos=given.ignore_eos,
    )


def _logprobs(number: int, name: str) -> logprobs_pb2.LogprobsOptions:
    if number < 0:
        raise UnsupportedFeature(f"{_PARAMETERS}.{name}", "must be from 0 to 20")
    return logprobs_pb2.LogprobsOptions(top_logprobs=number)


def _set_constraint(made: OutputConstraint, given: engine_pb2.SamplingParams) -> None:
    """Set the constraint, if there is one."""
    match given.WhichOneof("constraint"):
        case "json_schema":
            made.json_schema.name, made.json_schema.schema = _SCHEMA_NAME, given.json_schema
        case "regex":
            made.regex = given.regex
        case "grammar":
            made.grammar = given.grammar
        case "choice":
            made.choice.SetInParent()
            made.choice.texts.extend(given.choice.choices)
        case "json_object":
            if given.json_object:
                made.json_object.SetInParent()
        case str(name):
            raise UnsupportedFeature(f"{_PARAMETERS}.{name}", "is not supported")


@contextmanager
def naming_fields(request: engine_pb2.GenerateRequest | engine_pb2.EmbedRequest) -> Iterator[None]:
    """Let errors of the block name the client's fields instead of those of `sluice.v1`."""
    try:
        yield
    except InvalidRequest as error:
        error.field = _path(error.field, request)
        raise
    except InvalidMessage as error:
        raise InvalidMessage([replace(each, field=_path(each.field, request)) for each in error.violations]) from error


def _path(name: str, request: engine_pb2.GenerateRequest | engine_pb2.EmbedRequest) -> str:
    """Return the path in the client's request: `sampling.top_p` → `sampling_params.top_p`."""
    head, _, rest = name.partition(".")
    plain = head.partition("[")[0]
    if plain in {"prompts", "inputs"}:
        is_text = isinstance(request, engine_pb2.GenerateRequest) and request.WhichOneof("input") == "text"
        return "text" if is_text else "tokenized.input_ids"
    if isinstance(request, engine_pb2.EmbedRequest):
        return name
    if plain in {"sampling", "stopping"}:
        return f"{_PARAMETERS}.{rest}" if rest else _PARAMETERS
    if plain == "output_constraint":
        return f"{_PARAMETERS}.{request.sampling_params.WhichOneof('constraint')}"
    if plain in {"n", "logprobs", "prompt_logprobs"}:
        return f"{_PARAMETERS}.{plain}"
    return name
