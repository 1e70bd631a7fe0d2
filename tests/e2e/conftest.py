"""Fixtures that several modules use, besides the product without API keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.guarded import Guarded
from tests.e2e.stack import Stack, started
from tests.waiting import GUARD_S


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """The product with API keys of several teams, created by `sluice keys`."""
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


@pytest.fixture(scope="session")
def vision_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny model that accepts images."""
    folder = tmp_path_factory.mktemp("vision")
    # Imported late, because it imports torch.
    from tests.e2e.vision_product import save_vision_folder  # noqa: PLC0415

    save_vision_folder(folder)
    return folder


@pytest.fixture(scope="session")
def vision(vision_folder: Path) -> Iterator[Stack]:
    """One model under several image settings, and one that accepts text only."""
    from_hosts = {"allowed_hosts": ["127.0.0.1"], "allow_http": True, "max_fetch_s": GUARD_S, "max_redirects": 2}
    fetching = from_hosts | {"allow_private_addresses": True, "max_bytes": 100_000}
    in_thread = {"worker": "thread", "num_blocks": 64}
    models = [
        {"name": "vision", "path": str(vision_folder)},
        {"name": "text", "path": "demo/model"},
        {
            "name": "fetching",
            "path": str(vision_folder),
            "engine": in_thread,
            "images": fetching,
        },
        {
            "name": "impatient",
            "path": str(vision_folder),
            "engine": in_thread,
            "images": fetching | {"max_fetch_s": 1},
        },
        {
            "name": "public",
            "path": str(vision_folder),
            "engine": in_thread,
            "images": from_hosts | {"allowed_hosts": ["*"]},
        },
    ]
    with started(environment={"SLUICE_SERVICE_MODELS": json.dumps(models)}) as stack:
        yield stack
