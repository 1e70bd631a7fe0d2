"""The documented limit of MindIE's `top_k`: the size of the model's vocabulary, which only the service knows."""

from __future__ import annotations

from sluice.v1.text_generation_pb2 import GenerateTextRequest

from gateway.dialects.seam.failure import Failure
from gateway.routes.upstream.upstream import Upstream
from gateway.upstream.caller import Caller


async def check_vocabulary(upstream: Upstream, request: GenerateTextRequest, caller: Caller) -> None:
    """Raise Failure for a `top_k` that is too large. Only requests that use it need a call for the model."""
    if not request.sampling.top_k:
        return
    size = (await upstream.client.get_model(request.model, caller)).vocab_size
    if 0 < size <= request.sampling.top_k:  # the service rejects models without a vocabulary
        raise Failure.of_field("sampling.top_k", f"must be below {size}, the size of the model's vocabulary")
