"""Answer one line of a batch."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from service.answering.embeddings import Embeddings
from service.answering.generation import Answering
from service.answering.kind import CHAT, COMPLETION, continuing
from service.answering.stored_responses import StoredResponses
from service.contract.batches.batch import Answer, Line, answer_bytes
from service.storage.responses.batch_port import LineKey

_SEED_SIZE: Final = 4  # bytes
_METHODS: Final = {
    "chat": "sluice.v1.ChatService/Chat",
    "completion": "sluice.v1.CompletionService/Complete",
    "response": "sluice.v1.ResponseService/CreateResponse",
    "embedding": "sluice.v1.EmbeddingService/Embed",
}


class NoDeadline:
    """The context of a call that may take any time."""

    def time_remaining(self) -> float | None:
        """Return None."""
        return None


class LineAnswers:
    """Answers lines of every kind. Each run of a line has the same tokens: a request without a seed gets one."""

    def __init__(self, answering: Answering, embeddings: Embeddings, stored: StoredResponses) -> None:
        self._answering = answering
        self._embeddings = embeddings
        self._stored = stored

    async def answer(self, key: LineKey, line: Line) -> bytes:
        """Return the answer to a line as it is stored. Raise the errors of its call."""
        name = line.WhichOneof("request") or ""
        request: Any = getattr(line, name)
        if name == "embedding":
            return answer_bytes(name, await self._embeddings.embed(request, NoDeadline()))
        if not request.sampling.HasField("seed"):
            request.sampling.seed = _seed(key)
        answer: Answer
        match name:
            case "chat":
                answer = await self._answering.whole(CHAT, request, NoDeadline())
            case "completion":
                answer = await self._answering.whole(COMPLETION, request, NoDeadline())
            case _:
                request = await self._stored.with_items(request)
                kind = continuing(await self._stored.history(request))
                answer = await self._answering.whole(kind, request, NoDeadline())
        return answer_bytes(name, answer)


def method_of(line: Line) -> str:
    """Return the method that would answer a line as a call of its own."""
    return _METHODS[line.WhichOneof("request") or ""]


def _seed(key: LineKey) -> int:
    """Return the seed of a line without one."""
    _, batch_id, index = key
    digest = hashlib.blake2b(f"{batch_id}\0{index}".encode(), digest_size=_SEED_SIZE).digest()
    return int.from_bytes(digest, "big")
