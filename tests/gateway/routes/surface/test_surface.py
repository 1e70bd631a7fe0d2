"""Surfaces: the matching of routes whose names contain slashes."""

from __future__ import annotations

import pytest

from tests.gateway.conftest import Gateway


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v2/models/org/b/generate", "POST"),
        ("GET", "/v2/models/org/b/generate_stream", "POST"),
        ("GET", "/v2/models/org/b/versions/2/generate", "POST"),
        ("GET", "/api/2.0/serving-endpoints/a/config", "PUT"),
        ("DELETE", "/api/2.0/serving-endpoints/a/config", "PUT"),
        ("GET", "/api/2.0/serving-endpoints/pt/a/config", "PUT"),
    ],
)
async def test_path_suffix_is_not_matched_as_part_of_a_name(
    gateway: Gateway, method: str, path: str, allowed: str
) -> None:
    """A suffix of a path is not matched as a part of a name by a route with the requested method."""
    answer = await gateway.http.request(method, path)
    assert (answer.status_code, answer.headers.get("allow")) == (405, allowed)
