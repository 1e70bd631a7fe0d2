"""The body of an embedding request in OpenAI's family. A dialect adds its own fields by inheritance.

Null is equivalent to an absent field everywhere.
"""

from __future__ import annotations

import msgspec
from sluice.v1 import embedding_pb2

from gateway.dialects.openai_family.parameters.prompt_input import PromptInput, prompt_name, to_prompts
from gateway.dialects.seam.caller_name import dotted
from gateway.dialects.seam.contract_limit import check_length, put


class EmbeddingBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The fields that all dialects share. Ranges are the contract's."""

    input: PromptInput
    dimensions: int | None = None

    def to_request(self, model: str) -> embedding_pb2.EmbedRequest:
        """Return the contract's request. Raise Failure for a value outside the contract's types."""
        inputs = to_prompts(self.input, "input")
        check_length(embedding_pb2.EmbedRequest, "inputs", inputs, "input")
        request = embedding_pb2.EmbedRequest(model=model, inputs=inputs)
        put(request, "dimensions", self.dimensions, "dimensions")
        return request

    def caller_name(self, field: str) -> str:
        """Return the caller's name of the contract's `field`: `inputs[1].text` → `input.1`."""
        path = dotted(field)
        return prompt_name(path, self.input, "input") if path.partition(".")[0] == "inputs" else path
