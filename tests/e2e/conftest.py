"""What several modules share beside the product without keys."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.guarded import Guarded
from tests.e2e.stack import Stack


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """The product with the keys of several teams, which `sluice keys` made."""
    path = tmp_path_factory.mktemp("keys") / "keys.yaml"
    running = Guarded(Stack.__new__(Stack), path, {})
    for name, *options in (
        ("team", "--model", "sluice-*"),
        ("operator", "--scope", "generate", "--scope", "embed", "--scope", "endpoints:write", "--scope", "metrics"),
        ("embedder", "--scope", "embed"),
        ("past", "--expires", "2020-01-01"),
        ("gone",),
    ):
        running.keys[name] = running.command("create", "--id", name, *options)["key"]
    running.command("revoke", "gone")
    running.stack = Stack("--keys-file", str(path))
    try:
        running.stack.wait_for("sluice is ready")
        yield running
    finally:
        running.stack.stop()
