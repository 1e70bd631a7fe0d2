"""Receipts: signed records of answers, for requests that ask for one."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from service.answering.stream_identity import request_digest
from service.contract.parts.resume import MAX_CHOICES, from_the_beginning, stream_bytes
from service.generation.errors import UnsupportedFeature
from service.generation.outputs.events import Event, Tokens
from service.generation.requests.resume import StreamIdentity
from service.prompting.preparation import PreparedAnswer
from service.receipts.base64url import to_text
from service.receipts.signing_key import SigningKey
from service.receipts.token_chain import TokenChain
from service.registry.models import ServedGenerator
from service.registry.weights import WeightsChanged

_FIELD: Final = "serving.receipt"


class Receipts:
    """Issues receipts. Without a `key` every request for one is rejected."""

    def __init__(self, key: SigningKey | None) -> None:
        self._key = key

    async def open(self, model: ServedGenerator, prepared: PreparedAnswer, identity: StreamIdentity) -> OpenReceipt:
        """Return the receipt of an answer that begins. The first one of a model takes as long as reading its files.

        Raise UnsupportedFeature if there is no key, or if the answer could not be computed again.
        """
        if self._key is None:
            raise UnsupportedFeature(_FIELD, "the server has no key: its setting receipts.key_file is not set")
        if not model.description.supports_resume:
            raise UnsupportedFeature(_FIELD, "the model's backend doesn't promise the same tokens twice")
        num_choices = prepared.requests[0].n * len(prepared.requests)
        if num_choices > MAX_CHOICES:
            raise UnsupportedFeature(_FIELD, f"an answer with a receipt has at most {MAX_CHOICES} choices")
        try:
            weights = await asyncio.to_thread(model.weights.digest)
        except WeightsChanged as error:
            raise UnsupportedFeature(_FIELD, str(error)) from error
        resume = from_the_beginning(stream_bytes(identity, num_choices), num_choices)
        claims = {
            "iat": identity.created_ns // 10**9,
            "jti": identity.id,
            "model": model.name,
            "weights": weights,
            **({"adapter": model.adapter_digest} if model.adapter else {}),
            "system_fingerprint": model.description.fingerprint,
            "request": request_digest(model, prepared).hex(),
            "seed": str(identity.seed),  # JSON's numbers are exact up to 53 bits
            "resume": {"stream": to_text(resume.stream), "position": to_text(resume.position)},
        }
        return OpenReceipt(self._key, claims, num_choices)


class OpenReceipt:
    """The receipt of one answer while it is generated."""

    def __init__(self, key: SigningKey, claims: dict[str, Any], num_choices: int) -> None:
        self._key = key
        self._claims = claims
        self._num_choices = num_choices
        self._chains: defaultdict[int, TokenChain] = defaultdict(TokenChain)  # by choice index

    def add(self, events: Sequence[Event]) -> None:
        """Add the tokens of one output, whose events these are."""
        if isinstance(tokens := events[0], Tokens):
            self._chains[tokens.choice_index].add(tokens.token_ids)

    def signed(self) -> str:
        """Return the receipt of the answer, which has ended."""
        tokens = [self._chains[index].claim() for index in range(self._num_choices)]
        return self._key.sign({**self._claims, "tokens": tokens})
