"""The body of a text completion in OpenAI's family. A dialect adds its own fields by inheritance.

Null is equivalent to an absent field everywhere.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from sluice.v1 import completion_pb2

from gateway.dialects.openai_family.parameters.prompt_input import PromptInput, prompt_name, to_prompts
from gateway.dialects.openai_family.parameters.response_format import ResponseFormat, to_constraint
from gateway.dialects.openai_family.parameters.sampling import CALLER_NAMES, SamplingBody
from gateway.dialects.seam.caller_name import dotted, renamed
from gateway.dialects.seam.contract_limit import check_length, put

_CALLER_NAMES: Final = {
    **CALLER_NAMES,
    "logprobs.top_logprobs": "logprobs",
    "logprobs.token_ids": "logprob_token_ids",
    "output_constraint": "response_format",
    "output_constraint.json_object": "response_format",
}


class CompletionBody(SamplingBody, kw_only=True):
    """The fields that all dialects share, in the contract's ranges. `logprobs` is the number of top tokens to list."""

    prompt: PromptInput
    max_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None  # 0 is allowed with echo; the contract's minimum is 1
    echo: bool | None = None
    suffix: str | None = None
    logprobs: int | None = None
    response_format: ResponseFormat | None = None

    def to_request(self, model: str) -> completion_pb2.CompleteRequest:
        """Return the contract's request. Raise Failure for a value outside the contract's types."""
        prompts = to_prompts(self.prompt, "prompt")
        check_length(completion_pb2.CompleteRequest, "prompts", prompts, "prompt")
        request = completion_pb2.CompleteRequest(model=model, prompts=prompts, suffix=self.suffix, echo=self.echo)
        self.set_sampling(request)
        if self.echo and self.max_tokens == 0:  # sent by benchmarks that score a text
            request.prompt_only = True
            request.ClearField("stopping")
        if self.logprobs is not None:
            request.logprobs.SetInParent()
            put(request.logprobs, "top_logprobs", self.logprobs, "logprobs")
        if self.response_format is not None and (constraint := to_constraint(self.response_format)) is not None:
            request.output_constraint.CopyFrom(constraint)
        return request

    def caller_name(self, field: str) -> str:
        """Return the caller's name of a field: `serving.priority` → `priority`, `prompts[1].text` → `prompt.1`."""
        path = dotted(field)
        if path.partition(".")[0] == "prompts":
            return prompt_name(path, self.prompt, "prompt")
        return self.stop_name(path) or renamed(path, _CALLER_NAMES)
