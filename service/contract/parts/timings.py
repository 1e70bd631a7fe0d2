"""The measured times of a request and the progress of its prompts, if it asks for them."""

from __future__ import annotations

from typing import Any

from google.protobuf import duration_pb2
from sluice.v1 import serving_pb2

from service.generation.outputs.events import PromptProgress, Started, Tokens


class RequestClock:
    """Collects the instants of all choices of a request, for its last message."""

    def __init__(self, request: Any) -> None:
        """`request` is a message with the field `serving`."""
        self._is_requested = request.serving.report_timings
        self._arrived: float | None = None
        self._scheduled: float | None = None
        self._first_token: float | None = None
        self._newest_token: float | None = None
        self._load_wait_s = 0.0

    def start(self, started: Started) -> None:
        """Record what happened before the engine received the request."""
        self._load_wait_s = started.load_wait_s

    def add(self, tokens: Tokens) -> None:
        """Record the instants of an output."""
        if not self._is_requested:
            return
        measured = tokens.timings
        self._arrived = _earliest(self._arrived, measured.arrived)
        self._scheduled = _earliest(self._scheduled, measured.scheduled)
        self._first_token = _earliest(self._first_token, measured.first_token)
        if tokens.token_times:
            self._newest_token = max(self._newest_token or 0.0, tokens.token_times[-1])

    def timings(self) -> serving_pb2.RequestTimings | None:
        """Return the times; None unless they are requested."""
        if not self._is_requested:
            return None
        return serving_pb2.RequestTimings(
            queue_wait=duration_if_over(self._arrived, self._scheduled),
            first_token=duration_if_over(self._arrived, self._first_token),
            decode=duration_if_over(self._first_token, self._newest_token),
            load_wait=duration_between(0.0, self._load_wait_s) if self._load_wait_s else None,
        )


def progress_message(progress: PromptProgress) -> serving_pb2.PromptProgress:
    """Return the message of the progress of a request's prompts."""
    return serving_pb2.PromptProgress(
        total_tokens=progress.total_tokens,
        cached_tokens=progress.cached_tokens,
        processed_tokens=progress.processed_tokens,
        elapsed=duration_between(0.0, progress.elapsed_s),
    )


def duration_if_over(began: float | None, ended: float | None) -> duration_pb2.Duration | None:
    """Return the duration between two instants; None if one is missing."""
    return None if began is None or ended is None else duration_between(began, ended)


def duration_between(began: float, ended: float) -> duration_pb2.Duration:
    """Return the duration between two instants in seconds."""
    duration = duration_pb2.Duration()
    duration.FromNanoseconds(round((ended - began) * 1e9))
    return duration


def _earliest(known: float | None, other: float | None) -> float | None:
    return min((each for each in (known, other) if each is not None), default=None)
