"""`sluice keys`: what it prints, what it leaves in the file, and that the two belong together."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.app import APP
from service.auth.errors import DisabledKey, ExpiredKey, InvalidKey
from service.auth.key_file import read_keys
from service.auth.key_ring import KeyRing

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A keys file that isn't there yet."""
    return tmp_path / "keys.yaml"


def keys(path: Path, *arguments: str, code: int = 0) -> str:
    """What the command prints on standard output, or on standard error if it is to fail."""
    result = CliRunner().invoke(APP, ["keys", *arguments, "--file", str(path)])
    assert result.exit_code == code, result.output
    return result.stderr if code else result.stdout


def told(path: Path, *arguments: str) -> Any:
    """The JSON that the command prints."""
    return json.loads(keys(path, *arguments, "--json"))


def ring(path: Path) -> KeyRing:
    """The keys as the service takes them."""
    return KeyRing(read_keys(path))


def test_made_key_is_good(path: Path) -> None:
    """The key alone is on standard output, and opens what it was made for."""
    key = keys(path, "create", "--id", "team", "--name", "the team").strip()
    caller = ring(path).caller(key, time.time())
    assert (caller.id, caller.name) == ("team", "the team")
    assert caller.scopes == {"generate", "embed", "tokenize", "endpoints:read"}
    assert key not in path.read_text()


def test_options_become_the_entry(path: Path) -> None:
    """Every option is in the caller."""
    rights = ["--scope=embed", "--scope=metrics", "--model=m-*", "--model=n", "--endpoint=e"]
    limits = ["--limit=max_n=2", "--limit=m-1:max_tokens=3", "--min-priority=-7", "--weight=2"]
    options = ["--id=a", *rights, *limits, "--cache-group=g", "--expires=2999-01-01"]
    made = told(path, "create", *options)
    caller = ring(path).caller(made["key"], time.time())
    assert (caller.models, caller.endpoints) == (("m-*", "n"), ("e",))
    assert caller.scopes == {"embed", "metrics"}
    assert (caller.limits.max_n, caller.limits_by_model["m-1"].max_tokens) == (2, 3)
    assert (caller.min_priority, caller.weight, caller.cache_group) == (-7, 2.0, "g")
    assert (made["state"], made["expires"]) == ("active", "2999-01-01T00:00:00Z")


def test_nothing_but_create_shows_a_key(path: Path) -> None:
    """List and show tell neither key nor hash."""
    made = told(path, "create", "--id", "team")
    (entry,) = read_keys(path)
    for output in (keys(path, "list"), keys(path, "list", "--json"), keys(path, "show", "team")):
        assert "team" in output
        assert made["key"] not in output
        assert entry.sha256 not in output


def test_revoked_key_is_refused(path: Path) -> None:
    """Its holder is told, unless the entry is deleted."""
    key = told(path, "create", "--id", "team")["key"]
    keys(path, "revoke", "team")
    with pytest.raises(DisabledKey):
        ring(path).caller(key, time.time())
    assert told(path, "show", "team")["state"] == "revoked"
    keys(path, "revoke", "team", "--delete")
    with pytest.raises(InvalidKey):
        ring(path).caller(key, time.time())


def test_rotated_key_is_good_for_a_while(path: Path) -> None:
    """The key before it is good for the overlap, and not a moment after; without one, not at all."""
    old = told(path, "create", "--id", "team")["key"]
    new = told(path, "rotate", "team", "--overlap", "2h")["key"]
    now = time.time()
    assert ring(path).caller(old, now) == ring(path).caller(new, now)
    with pytest.raises(ExpiredKey):
        ring(path).caller(old, now + 7300)
    newest = told(path, "rotate", "team", "--overlap", "0m")["key"]
    with pytest.raises(ExpiredKey):
        ring(path).caller(new, time.time())
    assert ring(path).caller(newest, now).id == "team"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("show", "nobody"), "there is no key 'nobody'"),
        (("revoke", "nobody"), "there is no key 'nobody'"),
        (("rotate", "nobody"), "there is no key 'nobody'"),
        (("create", "--id", "team"), "--id: there is a key 'team'"),
        (("create", "--id", "Team!"), "(Team!): id: "),
        (("create", "--weight", "0"), "weight: Input should be greater than 0"),
        (("create", "--limit", "max_n=0"), "max_n: Input should be greater than or equal to 1"),
    ],
)
def test_what_can_not_be_done_is_one_line(path: Path, arguments: tuple[str, ...], complaint: str) -> None:
    """It says why, and the file stays as it was."""
    keys(path, "create", "--id", "team")
    before = path.read_bytes()
    error = keys(path, *arguments, code=1)
    assert complaint in error
    assert len(error.splitlines()) == 1
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "arguments", [("--limit", "max_m=1"), ("--limit", "max_n=x"), ("--expires", "soon"), ("--scope", "all")]
)
def test_options_are_checked(path: Path, arguments: tuple[str, ...]) -> None:
    """Exit code 2, and no file is made."""
    assert "Invalid value" in keys(path, "create", *arguments, code=2)
    assert not path.exists()


@pytest.mark.slow
def test_commands_side_by_side_lose_nothing(path: Path) -> None:
    """Of eight processes that make a key at once, each finds what the others wrote."""
    command = [sys.executable, "-m", "cli", "keys", "create", "--file", str(path)]
    made = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(8)]
    printed = [each.communicate()[0].decode().strip() for each in made]
    callers = {ring(path).caller(key, time.time()).id for key in printed}
    assert len(callers) == 8
