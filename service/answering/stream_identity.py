"""The identity of a stream, which shows whether another answer would have the same tokens."""

from __future__ import annotations

import hashlib
import time
import uuid
from array import array
from dataclasses import replace
from typing import Any

from service.generation.errors import CannotResume
from service.generation.request import GenerationRequest
from service.generation.resume import StreamIdentity
from service.prompting.preparation import PreparedAnswer
from service.registry.models import ServedGenerator

_DIGEST_SIZE = 8  # bytes


def identity_of(model: ServedGenerator, prepared: PreparedAnswer) -> StreamIdentity:
    """That of a new stream."""
    seed = prepared.sampling.seed
    assert seed is not None  # noqa: S101  it was drawn
    return StreamIdentity(
        id=uuid.uuid4().hex,
        created_ns=time.time_ns(),
        model=model.name,
        fingerprint=model.description.fingerprint,
        seed=seed,
        digest=_digest(model, prepared),
    )


def check_identity(begun: StreamIdentity, new: StreamIdentity, *, can_resume: bool) -> None:
    """Raise CannotResume if the tokens of `new` may be others than those of the stream that was `begun`."""
    if begun.model != new.model:
        reason = f"it was begun by the model {begun.model[:256]!r}"
    elif not can_resume:
        reason = "the model's backend doesn't promise the same tokens twice"
    elif begun.fingerprint != new.fingerprint:
        reason = f"its system_fingerprint is {begun.fingerprint[:64]!r}, and the model's is {new.fingerprint!r} now"
    elif begun.seed != new.seed or begun.digest != new.digest:
        reason = "the request is not the one that it answers, or the model's settings have changed"
    else:
        return
    raise CannotResume(f"the stream can't be resumed: {reason}")


def _digest(model: ServedGenerator, prepared: PreparedAnswer) -> bytes:
    """Of all that decides an answer beside the fingerprint, prompts, constraints and seeds included."""
    digest = hashlib.blake2b(digest_size=_DIGEST_SIZE)
    for request in prepared.requests:
        digest.update(array("q", request.prompt_token_ids).tobytes())
        digest.update(repr(_deciding(request)).encode())
        if request.sampling.watermark:
            digest.update(repr(model.watermark.watermark).encode())
    for form in prepared.forms:
        digest.update(repr(form).encode())
    return digest.digest()


def _deciding(request: GenerationRequest) -> tuple[object, ...]:
    """What a request's text and logprobs depend on beside its prompt's tokens."""
    in_order: dict[str, Any] = {
        name: dict(sorted(values.items())) for name, values in request.sampling.token_values().items()
    }
    sampling = replace(request.sampling, **in_order)
    return (
        sampling,
        request.stopping,
        request.n,
        request.logprobs,
        request.prompt_logprobs,
        request.constraint,
        request.adapter,
        request.skip_special_tokens,
    )
