"""The resume position of a stream as bytes, which clients keep and send back.

They are opaque and not secret: a client that changes them gets an error, or a different answer to its own request.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Final, Protocol

from sluice.v1 import resume_pb2

from service.generation.errors import InvalidRequest
from service.generation.requests.resume import ResumePoint, StreamIdentity, StreamPosition

_VERSION: Final = 1
_DIGEST_SIZE: Final = 8
_HEAD: Final = struct.Struct(f">BQQ16s{_DIGEST_SIZE}s")  # version, instant, seed, id, digest; then two names
MAX_CHOICES: Final = 128  # a position contains one per choice
_MAX_COUNT: Final = 1 << 40


class _Request(Protocol):
    """A generation request of any kind."""

    @property
    def resume(self) -> resume_pb2.ResumeOptions: ...

    def HasField(self, name: Any) -> bool: ...  # noqa: N802  protobuf's name


def to_resume(request: _Request) -> ResumePoint | None:
    """Return the position at which the request resumes. Raise InvalidRequest for values that no stream has sent."""
    if not request.HasField("resume"):
        return None
    options = request.resume
    position = _to_position(options.position)
    if options.sequence_number + 1 < position.first_number:  # one less: no event of the position was received
        raise InvalidRequest("resume.sequence_number", "is not the number of the event that had the position")
    return ResumePoint(_to_identity(options.stream), position, options.sequence_number, options.replay)


def from_the_beginning(stream: bytes, num_choices: int = 1) -> resume_pb2.ResumeOptions:
    """Return the options that resume a stream at its first event, which is sent again."""
    position = position_bytes(StreamPosition(0, [0] * num_choices))
    return resume_pb2.ResumeOptions(stream=stream, position=position, replay=True)


def stream_bytes(identity: StreamIdentity, num_choices: int) -> bytes:
    """Return the stream's id; empty if it has more choices than a position can represent."""
    if num_choices > MAX_CHOICES:
        return b""
    head = _HEAD.pack(_VERSION, identity.created_ns, identity.seed, bytes.fromhex(identity.id), identity.digest)
    return head + identity.model.encode() + b"\0" + identity.fingerprint.encode()


def _to_identity(data: bytes) -> StreamIdentity:
    """Decode a stream's identity. Raise InvalidRequest."""
    try:
        version, created_ns, seed, answer_id, digest = _HEAD.unpack_from(data)
        model, fingerprint = data[_HEAD.size :].decode().split("\0")
    except (struct.error, ValueError):
        version = 0
    if version != _VERSION:
        raise InvalidRequest("resume.stream", "is not the stream value of a first event")
    return StreamIdentity(answer_id.hex(), created_ns, model, fingerprint, seed, digest)


def position_bytes(position: StreamPosition) -> bytes:
    """Return a position as bytes: variable-length integers, with counts in run-length encoding."""
    choice = 0 if position.choice_index is None else position.choice_index + 1
    numbers = [position.first_number, position.num_cached_tokens, choice, position.end]
    if len(position.counts) == 1:
        numbers += (1, position.counts[0])
    else:
        for count, run in groupby(position.counts):
            numbers += (sum(1 for _ in run), count)
    return _varints(numbers)


def _to_position(data: bytes) -> StreamPosition:
    """Decode a position in a stream. Raise InvalidRequest."""
    numbers = _numbers(data)
    first_number, num_cached_tokens, choice, end, *runs = numbers or [0] * 4
    sizes, counts = runs[::2], runs[1::2]
    if len(sizes) == len(counts) and 0 < sum(sizes) <= MAX_CHOICES and max(numbers) < _MAX_COUNT:
        found = [count for size, count in zip(sizes, counts, strict=True) for _ in range(size)]
        if choice == 0:
            return StreamPosition(first_number, found, num_cached_tokens=num_cached_tokens)
        if choice <= len(found) and end >= found[choice - 1]:
            return StreamPosition(first_number, found, choice - 1, end, num_cached_tokens)
    raise InvalidRequest("resume.position", "is not a position in a stream")


def _varints(numbers: Iterable[int]) -> bytes:
    """Encode integers with 7 bits per byte, the lowest first."""
    data = bytearray()
    for number in numbers:
        left = number
        while left > 0x7F:
            data.append(left & 0x7F | 0x80)
            left >>= 7
        data.append(left)
    return bytes(data)


def _numbers(data: bytes) -> Sequence[int]:
    """Decode variable-length integers; empty if the bytes are invalid or have fewer than four."""
    numbers, number, shift = [], 0, 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(number)
            number, shift = 0, 0
    return numbers if shift == 0 and len(numbers) >= 4 else []
