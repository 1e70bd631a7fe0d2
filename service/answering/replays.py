"""Replays: a stored response that has a receipt is generated again, and both are compared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from typing import Any, Final

from sluice.v1 import response_pb2, resume_pb2, stored_response_pb2

from service.answering.generation import Answering
from service.answering.kind import continuing
from service.answering.stored_responses import StoredResponses
from service.calls.call import Timed
from service.generation.errors import EngineFailed, UnsupportedFeature
from service.receipts.base64url import from_text
from service.receipts.signing_key import SigningKey, to_jwk
from service.receipts.verification import InvalidReceipt, differences, verify

_ID: Final = "id"


class Replays:
    """Generates stored responses of the current caller again."""

    def __init__(self, key: SigningKey | None, answering: Answering, stored: StoredResponses) -> None:
        """`key` signs the server's receipts. Only receipts that it has signed are replayed."""
        self._keys = [] if key is None else [to_jwk(key.public_key)]
        self._answering = answering
        self._stored = stored

    async def replay(self, response_id: str, context: Timed) -> stored_response_pb2.ReplayResponseResponse:
        """Compare a stored response with the one that its request has now.

        Raise ResponseNotFound, UnsupportedFeature for a response without a receipt of this server, and the errors of
        the generation: CannotResume if the model or the request isn't the one of the receipt.
        """
        request, response = await self._stored.answered(response_id)
        if not response.receipt:
            raise UnsupportedFeature(_ID, "this response has no receipt")
        with _valid():
            claims = verify(response.receipt, self._keys)
        stream, position = (from_text(claims["resume"][name]) for name in ("stream", "position"))
        request.resume.CopyFrom(resume_pb2.ResumeOptions(stream=stream, position=position, replay=True))
        receipt = await self._receipt_of(request, context)
        with _valid():
            again = verify(receipt, self._keys)
        return stored_response_pb2.ReplayResponseResponse(receipt=receipt, differences=differences(claims, again))

    async def _receipt_of(self, request: response_pb2.CreateResponseRequest, context: Timed) -> str:
        """Generate a response, and return its receipt."""
        kind = continuing(await self._stored.history(request))
        async with aclosing(self._answering.stream(kind, request, context)) as events:
            async for event in events:
                name: Any = event.WhichOneof("event")
                if name in ("completed", "incomplete"):
                    return str(getattr(event, name).response.receipt)
        raise EngineFailed("the answer ended without its terminal event")


@contextmanager
def _valid() -> Iterator[None]:
    """Raise UnsupportedFeature if a receipt is invalid."""
    try:
        yield
    except InvalidReceipt as error:
        raise UnsupportedFeature(_ID, f"the receipt of this response can't be verified: {error}") from error
