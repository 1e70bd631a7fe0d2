"""The identity of a stream, which decides whether generating the answer again yields the same tokens."""

from __future__ import annotations

import hashlib
import time
import uuid
from array import array
from dataclasses import astuple, replace
from typing import Any

from service.generation.errors import CannotResume
from service.generation.requests.request import GenerationRequest
from service.generation.requests.resume import ResumePoint, StreamIdentity
from service.prompting.preparation import PreparedAnswer
from service.registry.models import ServedGenerator

_DIGEST_SIZE = 32  # bytes
_ID_SIZE = 16  # bytes of an answer's id
_IDENTITY_SIZE = 8  # bytes of the digest that a stream's identity has


def stream_identity(
    model: ServedGenerator,
    prepared: PreparedAnswer,
    point: ResumePoint | None,
    answer_id: str = "",
    call_name: str = "",
) -> StreamIdentity:
    """Return the identity of a new stream, which has the `answer_id`, if any, or of the stream that `point` resumes.

    Otherwise the id follows from the `call_name`, if any, and from what determines the answer, so that the same call
    has the same one at another replica. Raise CannotResume if the answer's tokens may differ from those of the stream.
    """
    new = _new_identity(model, prepared, answer_id, call_name)
    if point is None:
        return new
    _check(point.identity, new, can_resume=model.description.supports_resume)
    return point.identity


def _new_identity(model: ServedGenerator, prepared: PreparedAnswer, answer_id: str, call_name: str) -> StreamIdentity:
    """Return the identity of the stream that generates this answer."""
    seed = prepared.sampling.seed
    assert seed is not None  # noqa: S101  preparation draws one
    digest = request_digest(model, prepared)
    if not answer_id:
        answer_id = _id_of(call_name, model, digest) if call_name else uuid.uuid4().hex
    return StreamIdentity(
        id=answer_id,
        created_ns=time.time_ns(),
        model=model.name,
        fingerprint=model.description.fingerprint,
        seed=seed,
        digest=digest[:_IDENTITY_SIZE],
    )


def _id_of(call_name: str, model: ServedGenerator, digest: bytes) -> str:
    """Return the id of an answer that is the same whenever a call is repeated."""
    described = f"answer\0{call_name}\0{model.name}\0{model.description.fingerprint}\0".encode()
    return hashlib.blake2b(described + digest, digest_size=_ID_SIZE).hexdigest()


def _check(original: StreamIdentity, new: StreamIdentity, *, can_resume: bool) -> None:
    """Raise CannotResume if `new` may have other tokens than the stream to resume."""
    if original.model != new.model:
        reason = f"it was begun by the model {original.model[:256]!r}"
    elif not can_resume:
        reason = "the model's backend doesn't promise the same tokens twice"
    elif original.fingerprint != new.fingerprint:
        reason = f"its system_fingerprint is {original.fingerprint[:64]!r}, and the model's is {new.fingerprint!r} now"
    elif original.seed != new.seed or original.digest != new.digest:
        reason = "the request is not the one that it answers, or the model's settings have changed"
    else:
        return
    raise CannotResume(f"the stream can't be resumed: {reason}")


def request_digest(model: ServedGenerator, prepared: PreparedAnswer) -> bytes:
    """Return a digest of everything that determines an answer, except the fingerprint: 32 bytes."""
    digest = hashlib.blake2b(digest_size=_DIGEST_SIZE)
    for request in prepared.requests:
        digest.update(len(request.prompt_token_ids).to_bytes(8, "big"))
        digest.update(array("q", request.prompt_token_ids).tobytes())
        for image in request.images:
            digest.update(image.digest)
        digest.update(repr(_parameters(request)).encode())
        if request.sampling.watermark:
            digest.update(repr(astuple(model.watermark.watermark)).encode())
    for form in prepared.forms:
        digest.update(repr(form).encode())
    return digest.digest()


def _parameters(request: GenerationRequest) -> tuple[object, ...]:
    """Return everything that a request's text and logprobs depend on, except the prompt's tokens."""
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
