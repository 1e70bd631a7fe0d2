"""The documented limit of MindIE's `top_k`: the size of the model's vocabulary, which only the service knows.

Used on the event loop.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from google.protobuf.message import Message

from gateway.client import Caller, ServiceClient
from gateway.dialects.failure import Failure


class VocabularyClient:
    """A client for text generation that refuses a `top_k` beyond the vocabulary of the model that is asked."""

    def __init__(self, client: ServiceClient) -> None:
        self._client = client

    async def call(self, request: Message, caller: Caller, affinity: str = "") -> Any:
        """As ServiceClient.call."""
        await self._check(request, caller)
        return await self._client.call(request, caller, affinity)

    @contextlib.asynccontextmanager
    async def stream(
        self, request: Message, caller: Caller, affinity: str = ""
    ) -> AsyncIterator[AsyncIterator[Message]]:
        """As ServiceClient.stream."""
        await self._check(request, caller)
        async with self._client.stream(request, caller, affinity) as events:
            yield events

    async def _check(self, request: Any, caller: Caller) -> None:
        """Raise Failure for a `top_k` that is too large. Only a request that has one costs a look at the model."""
        if not request.sampling.HasField("top_k"):
            return
        size = (await self._client.get_model(request.model, caller)).vocab_size
        if 0 < size <= request.sampling.top_k:  # a model without a vocabulary is the service's to refuse
            raise Failure.of_field("sampling.top_k", f"must be below {size}, the size of the model's vocabulary")
