"""Keys that replicas share in Redis: made by the command, known by all, and not forgotten with the server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from service.auth.key_entry import KeysError
from service.auth.key_place import keys_at
from service.auth.shared_keys import NAME, SharedKeys
from service.storage.shared_text import SharedText
from tests.redis_server import RedisServer

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]


def keys(*words: str) -> subprocess.CompletedProcess[str]:
    """`sluice keys` with these words."""
    return subprocess.run(
        [sys.executable, "-m", "cli", "keys", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_keys_of_the_command_are_known(redis: RedisServer) -> None:
    """Made, revoked and listed by a URL where a file could stand; a wrong one is one line."""
    shared = SharedKeys(SharedText(redis.url, NAME))
    assert shared.content == []
    made = keys("create", "--file", redis.url, "--id", "search")
    assert made.stdout.startswith("sk-sluice-search-"), made.stderr
    assert shared.refresh()
    assert [entry.id for entry in shared.content] == ["search"]
    assert keys("revoke", "search", "--file", redis.url).returncode == 0
    assert (shared.refresh(), shared.refresh()) == (True, False)
    assert shared.content[0].disabled
    assert "search" in keys("list", "--file", redis.url).stdout
    redis.kill()
    lost = keys("list", "--file", redis.url)
    assert (lost.returncode, lost.stderr.count("\n")) == (1, 1)
    assert "the store is lost" in lost.stderr


def test_a_loss_changes_nothing_and_is_told_once(redis: RedisServer) -> None:
    """Who has a key keeps it; a text that can't be read is told once, too."""
    text = SharedText(redis.url, NAME, 0.2)
    keys("create", "--file", redis.url, "--id", "search")
    shared = SharedKeys(text)
    redis.kill()
    with pytest.raises(KeysError, match="the store is lost"):
        shared.refresh()
    assert not shared.refresh()
    redis.start()
    assert shared.refresh()  # it is put back
    assert [entry.id for entry in keys_at(redis.url)] == ["search"]
    writer = SharedText(redis.url, NAME)
    writer.read()
    writer.write("keys: 5")
    with pytest.raises(KeysError, match="keys"):
        shared.refresh()
    assert not shared.refresh()
    assert [entry.id for entry in shared.content] == ["search"]
