"""Memory that libraries would otherwise keep."""

from __future__ import annotations

import os

import pytest

from service.engine.link.process_memory import limit_primitive_cache

NAME = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"


@pytest.mark.parametrize(("given", "found"), [(None, "8"), ("200", "200")])
def test_few_primitives_are_kept_unless_the_environment_says_how_many(
    monkeypatch: pytest.MonkeyPatch, given: str | None, found: str
) -> None:
    monkeypatch.delenv(NAME, raising=False)
    if given is not None:
        monkeypatch.setenv(NAME, given)
    limit_primitive_cache()
    assert os.environ[NAME] == found
    monkeypatch.setenv(NAME, "")  # so that monkeypatch restores the original value
