"""The body of MindIE's and Triton's generate requests, with the documented ranges. Null means absent."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta
from sluice.v1.text_generation_pb2 import GenerateTextRequest

from gateway.dialects.seam.contract_copy import copy_fields
from gateway.dialects.seam.contract_limit import put
from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.output_interval import check_interval
from gateway.dialects.seam.sampling_defaults import UNMODIFIED, SamplingDefaults

_MAX_INT32: Final = 2**31 - 1
_MAX_SEED: Final = 2**64 - 1
_LEAST_PRIORITY: Final = 5  # MindIE's default; the contract's is 0; lower values are served first in both

MINDIE_DEFAULTS: Final[SamplingDefaults] = {  # as documented
    **UNMODIFIED, "top_k": 0, "repetition_penalty": 1, "typical_p": 1,
}  # fmt: skip

Share = Annotated[float, Meta(gt=0, le=1)]
Above0 = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1, le=_MAX_INT32)]
Priority = Annotated[int, Meta(ge=1, le=_LEAST_PRIORITY)]
Seconds = Annotated[int, Meta(ge=1, le=3600)]


class GenerateParameters(msgspec.Struct, forbid_unknown_fields=True):
    """The parameters of the generation. `batch_size` has no effect: the engine batches the running requests."""

    details: bool | None = None
    do_sample: bool | None = None
    max_new_tokens: Count | None = None
    max_tokens: Count | None = None
    repetition_penalty: Above0 | None = None
    seed: Annotated[int, Meta(ge=1)] | None = None
    temperature: Above0 | None = None
    top_k: Annotated[int, Meta(ge=0, le=_MAX_INT32)] | None = None
    top_p: Share | None = None
    batch_size: Count | None = None
    typical_p: Share | None = None
    watermark: bool | None = None
    perf_stat: bool | None = None
    priority: Priority | None = None
    timeout: Seconds | None = None
    slo_first_token_seconds: float | None = None
    slo_token_seconds: float | None = None
    receipt: bool | None = None
    output_interval_ms: int | None = None

    def check(self) -> None:
        """Raise Failure for contradictory parameters, and for values that only the contract allows."""
        if self.max_tokens is not None and self.max_new_tokens not in {None, self.max_tokens}:
            raise Failure.of_field("parameters.max_tokens", "conflicts with max_new_tokens; give only one of them")
        check_interval(self.output_interval_ms, "parameters.output_interval_ms")
        if self.seed is not None and self.seed > _MAX_SEED:
            raise Failure.of_field("parameters.seed", f"must be from 1 to {_MAX_SEED}")


class GenerateBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `generate` and `generate_stream`. `stream` must agree with the path."""

    text_input: str
    id: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    parameters: GenerateParameters | None = None
    stream: bool | None = None

    @property
    def given(self) -> GenerateParameters:
        """The parameters, all of them unset if the body has none."""
        return self.parameters or GenerateParameters()

    def check(self, *, stream: bool) -> None:
        """Raise Failure for fields that contradict each other or the path."""
        if self.stream not in {None, stream}:
            other = "generate" if stream else "generate_stream"
            raise Failure.of_field("stream", f"must be {str(stream).lower()} on this path; use {other} instead")
        self.given.check()

    def to_request(self, model: str, version: str) -> GenerateTextRequest:
        """Return the contract's request. Raise Failure for a value outside the contract's types."""
        given = self.given
        request = GenerateTextRequest(
            model=model,
            model_version=version,
            text_input=self.text_input,
        )
        copy_fields(given, request, "parameters.")
        copy_fields(given, request.sampling, "parameters.")
        copy_fields(given, request.stopping, "parameters.")
        put(request.stopping, "max_tokens", given.max_new_tokens, "parameters.max_new_tokens")
        copy_fields(given, request.serving, "parameters.", but={"priority"})
        if given.priority is not None:
            request.serving.priority = given.priority - _LEAST_PRIORITY
        if given.output_interval_ms == 0:
            request.serving.separate_tokens = True
        return request

    def caller_name(self, field: str) -> str:
        """Return the caller's name of the contract's `field`: `serving.priority` → `parameters.priority`."""
        head, _, rest = field.partition(".")
        if field == "stopping.max_tokens":
            name = "max_tokens" if self.given.max_new_tokens is None and self.given.max_tokens else "max_new_tokens"
            return f"parameters.{name}"
        return f"parameters.{rest}" if head in {"sampling", "stopping", "serving"} and rest else field

    def converted(self, failure: Failure) -> Failure:
        """Return a failure of the service with its limits converted to this dialect's numbers."""
        texts = {"parameters.temperature": "must be above 0 and at most 2"}
        if self.given.priority is not None:
            texts["parameters.priority"] = f"{self.given.priority} is more urgent than the caller's key allows"
        return failure.with_texts(texts)
