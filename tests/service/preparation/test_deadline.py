"""What serving options mean to the engine."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from sluice.v1 import serving_pb2

from service.pipeline.serving import Serving, resolve_serving

TRUNCATE = serving_pb2.ServingOptions(error_behavior=serving_pb2.ERROR_BEHAVIOR_TRUNCATE)


def test_options_have_defaults() -> None:
    """Nothing given is the ordinary: the deadline is the call's own."""
    assert resolve_serving(serving_pb2.ServingOptions(), None) == Serving(0, "", None, truncates=False)
    assert resolve_serving(serving_pb2.ServingOptions(), 7.0).deadline == 7.0
    error = serving_pb2.ServingOptions(error_behavior=serving_pb2.ERROR_BEHAVIOR_ERROR, priority=5, cache_salt="x")
    assert resolve_serving(error, 7.0) == Serving(5, "x", 7.0, truncates=False)


@pytest.mark.parametrize(("room_s", "margin_s"), [(1000.0, 1.0), (5.0, 0.5), (1.0, 0.2), (0.2, 0.1)])
def test_request_that_truncates_ends_before_its_deadline(
    monkeypatch: pytest.MonkeyPatch, room_s: float, margin_s: float
) -> None:
    """Time is left to send what there is: a tenth, but a fifth of a second to a second, and half of it at most."""
    monkeypatch.setattr("service.pipeline.serving.time", SimpleNamespace(monotonic=lambda: 100.0))
    serving = resolve_serving(TRUNCATE, 100.0 + room_s)
    assert serving.truncates
    assert serving.deadline == pytest.approx(100.0 + room_s - margin_s)


def test_request_that_is_late_already_stays_late() -> None:
    """A deadline in the past isn't moved."""
    assert resolve_serving(TRUNCATE, 1.0).deadline == 1.0
    assert resolve_serving(TRUNCATE, None).deadline is None
