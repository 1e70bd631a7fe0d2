"""Resume points as bytes and back."""

from __future__ import annotations

import hypothesis
import pytest
from hypothesis import strategies as st
from sluice.v1 import chat_pb2, resume_pb2

from service.contract.parts.resume import position_bytes, stream_bytes, to_resume
from service.generation.errors import InvalidRequest
from service.generation.requests.resume import ResumePoint, StreamIdentity, StreamPosition
from tests.service.contract.fakes import RESUMED, resume_options

COUNTS = st.lists(st.integers(0, 5) | st.integers(0, 2**30), min_size=1, max_size=128)
SEEDS = st.integers(0, 2**64 - 1)


@st.composite
def points(draw: st.DrawFn) -> ResumePoint:
    """Draw any point in any stream."""
    identity = StreamIdentity(
        draw(st.binary(min_size=16, max_size=16)).hex(),
        draw(st.integers(0, 2**63)),
        draw(st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1)),
        "fp_1",
        draw(SEEDS),
        draw(st.binary(min_size=8, max_size=8)),
    )
    counts = draw(COUNTS)
    first, cached = draw(st.integers(0, 2**30)), draw(st.integers(0, 2**20))
    position = StreamPosition(first, counts, num_cached_tokens=cached)
    if draw(st.booleans()):
        index = draw(st.integers(0, len(counts) - 1))
        position = StreamPosition(first, counts, index, counts[index] + draw(st.integers(0, 300)), cached)
    return ResumePoint(identity, position, first + draw(st.integers(0, 9)), draw(st.booleans()))


def read(options: resume_pb2.ResumeOptions) -> ResumePoint | None:
    return to_resume(chat_pb2.ChatRequest(resume=options))


@hypothesis.given(points())
def test_every_resume_point_survives_a_round_trip(point: ResumePoint) -> None:
    assert read(resume_options(point)) == point


@pytest.mark.slow
@hypothesis.given(st.binary(max_size=40), st.binary(max_size=80), st.integers(0, 99))
def test_any_bytes_are_a_resume_point_or_rejected(position: bytes, stream: bytes, number: int) -> None:
    """No bytes from a client cause another kind of error."""
    head = stream_bytes(RESUMED.identity, 1)
    for each in (head, head[:41] + stream, stream):
        try:
            point = read(resume_pb2.ResumeOptions(stream=each, position=position, sequence_number=number))
        except InvalidRequest as error:
            assert error.field.startswith("resume.")  # noqa: PT017  most are rejected, some aren't
        else:
            assert point is not None
            assert len(point.position.counts) <= 128


def test_size_of_a_point_is_independent_of_choices_with_equal_counts() -> None:
    """Choices advance together: a point among 128 choices is as short as one among three."""
    assert len(position_bytes(StreamPosition(9, [7] * 60 + [6] * 68, 60, 7))) < 12


def test_stream_with_too_many_choices_has_no_resume_point() -> None:
    assert stream_bytes(RESUMED.identity, 128)
    assert stream_bytes(RESUMED.identity, 129) == b""


def test_request_without_resume_options_is_a_new_one() -> None:
    assert to_resume(chat_pb2.ChatRequest()) is None
