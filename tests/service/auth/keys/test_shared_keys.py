"""Keys that replicas share in Redis: written by the command, used by all, and kept when the server is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from service.auth.keys.key_entry import KeysError
from service.auth.keys.key_location import keys_at
from service.auth.keys.shared_keys import NAME, SharedKeys
from service.storage.shared_text import SharedText
from tests.redis_server import RedisServer
from tests.waiting import GUARD_S

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[4]


def keys(*words: str) -> subprocess.CompletedProcess[str]:
    """Run `sluice keys` with these arguments."""
    return subprocess.run(
        [sys.executable, "-m", "cli", "keys", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_keys_created_by_the_command_are_accepted(redis: RedisServer) -> None:
    """Keys are created, revoked and listed by a URL instead of a file; an invalid URL is a one-line error."""
    shared = SharedKeys(SharedText(redis.url, NAME, GUARD_S))
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


def test_lost_store_keeps_known_keys_and_is_logged_once(redis: RedisServer) -> None:
    """Known keys stay valid; an unreadable text is also logged once."""
    text = SharedText(redis.url, NAME, GUARD_S)
    keys("create", "--file", redis.url, "--id", "search")
    shared = SharedKeys(text)
    redis.kill()
    with pytest.raises(KeysError, match="the store is lost"):
        shared.refresh()
    assert not shared.refresh()
    redis.start()
    assert shared.refresh()  # it is restored
    assert [entry.id for entry in keys_at(redis.url)] == ["search"]
    writer = SharedText(redis.url, NAME, GUARD_S)
    writer.read()
    writer.write("keys: 5")
    with pytest.raises(KeysError, match="keys"):
        shared.refresh()
    assert not shared.refresh()
    assert [entry.id for entry in shared.content] == ["search"]
