"""`sluice keys`: its output, its changes of the file, and their consistency."""

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
from service.auth.keys.key_file import read_keys
from service.auth.keys.key_ring import KeyRing

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of a keys file that does not exist yet."""
    return tmp_path / "keys.yaml"


def keys(path: Path, *arguments: str, code: int = 0) -> str:
    """Return the command's standard output, or its standard error if it is expected to fail."""
    result = CliRunner().invoke(APP, ["keys", *arguments, "--file", str(path)])
    assert result.exit_code == code, result.output
    return result.stderr if code else result.stdout


def keys_json(path: Path, *arguments: str) -> Any:
    """Return the JSON that the command prints."""
    return json.loads(keys(path, *arguments, "--json"))


def ring(path: Path) -> KeyRing:
    """Return the keys as the service reads them."""
    return KeyRing(read_keys(path))


def test_created_key_is_printed_and_accepted(path: Path) -> None:
    """Only the key is on standard output, and the service accepts it."""
    key = keys(path, "create", "--id", "team", "--name", "the team").strip()
    caller = ring(path).caller(key, time.time())
    assert (caller.id, caller.name) == ("team", "the team")
    assert caller.scopes == {"generate", "embed", "tokenize", "endpoints:read"}
    assert key not in path.read_text()


def test_create_options_apply_to_the_key(path: Path) -> None:
    """Every option has its effect on the caller."""
    rights = ["--scope=embed", "--scope=metrics", "--model=m-*", "--model=n", "--endpoint=e"]
    limits = ["--limit=max_n=2", "--limit=m-1:max_tokens=3", "--min-priority=-7", "--weight=2"]
    options = ["--id=a", *rights, *limits, "--cache-group=g", "--slo-first-token-seconds=2", "--expires=2999-01-01"]
    made = keys_json(path, "create", *options)
    caller = ring(path).caller(made["key"], time.time())
    assert (caller.models, caller.endpoints) == (("m-*", "n"), ("e",))
    assert caller.scopes == {"embed", "metrics"}
    assert (caller.limits.max_n, caller.limits_by_model["m-1"].max_tokens) == (2, 3)
    assert (caller.min_priority, caller.weight, caller.cache_group) == (-7, 2.0, "g")
    assert caller.service_level == (2.0, None)
    assert (made["state"], made["expires"]) == ("active", "2999-01-01T00:00:00Z")


def test_list_and_show_print_no_key(path: Path) -> None:
    """List and show print neither key nor hash."""
    made = keys_json(path, "create", "--id", "team")
    (entry,) = read_keys(path)
    for output in (keys(path, "list"), keys(path, "list", "--json"), keys(path, "show", "team")):
        assert "team" in output
        assert made["key"] not in output
        assert entry.sha256 not in output


def test_revoked_key_is_rejected(path: Path) -> None:
    """A revoked key is rejected as such, or as unknown once its entry is deleted."""
    key = keys_json(path, "create", "--id", "team")["key"]
    keys(path, "revoke", "team")
    with pytest.raises(DisabledKey):
        ring(path).caller(key, time.time())
    assert keys_json(path, "show", "team")["state"] == "revoked"
    assert keys(path, "revoke", "team", "--delete") == "team is deleted\n"
    with pytest.raises(InvalidKey):
        ring(path).caller(key, time.time())


def test_rotated_key_is_valid_for_the_overlap(path: Path) -> None:
    """The previous key is valid until the end of the overlap, and without an overlap not at all."""
    old = keys_json(path, "create", "--id", "team")["key"]
    new = keys_json(path, "rotate", "team", "--overlap", "2h")["key"]
    now = time.time()
    assert ring(path).caller(old, now) == ring(path).caller(new, now)
    with pytest.raises(ExpiredKey):
        ring(path).caller(old, now + 7300)
    newest = keys_json(path, "rotate", "team", "--overlap", "0m")["key"]
    with pytest.raises(ExpiredKey):
        ring(path).caller(new, time.time())
    assert ring(path).caller(newest, now).id == "team"


def test_enabled_key_is_accepted_again(path: Path) -> None:
    """A revoked key is accepted again once it is enabled."""
    key = keys_json(path, "create", "--id", "team")["key"]
    keys(path, "revoke", "team")
    assert keys_json(path, "enable", "team")["state"] == "active"
    assert ring(path).caller(key, time.time()).id == "team"


def test_edit_changes_only_the_given_options(path: Path) -> None:
    """The key stays valid; named fields and limits change, an empty limit is removed, and all else stays."""
    options = ("--name=a", "--scope=embed", "--limit=max_n=2", "--limit=m-*:max_tokens=3", "--expires=1d")
    key = keys_json(path, "create", "--id", "team", *options)["key"]
    keys(path, "create", "--id", "other")
    changes = ("--limit=max_n=", "--limit=max_tokens=9", "--model=m-1", "--model=m-2", "--weight=2", "--expires=never")
    edited = keys_json(path, "edit", "team", *changes)
    assert (edited["name"], edited["scopes"], edited["models"]) == ("a", ["embed"], ["m-1", "m-2"])
    assert (edited["limits"], edited["limits_by_model"]) == ({"max_tokens": 9}, {"m-*": {"max_tokens": 3}})
    assert "expires" not in edited
    caller = ring(path).caller(key, time.time())
    assert (caller.weight, caller.limits.max_n, caller.limits.max_tokens) == (2.0, None, 9)
    assert [entry.id for entry in read_keys(path)] == ["team", "other"]


def test_edit_without_an_option_is_an_error(path: Path) -> None:
    """An edit without a change exits with code 2 and names options."""
    keys(path, "create", "--id", "team")
    assert "nothing to change; give an option such as --limit" in " ".join(keys(path, "edit", "team", code=2).split())


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("edit", "nobody", "--weight", "2"), "there is no key 'nobody'"),
        (("enable", "nobody"), "there is no key 'nobody'"),
        (("edit", "team", "--weight", "0"), "weight: Input should be greater than 0"),
        (("show", "nobody"), "there is no key 'nobody'"),
        (("revoke", "nobody"), "there is no key 'nobody'"),
        (("rotate", "nobody"), "there is no key 'nobody'"),
        (("create", "--id", "team"), "--id: there is a key 'team'"),
        (("create", "--id", "Team!"), "(Team!): id: "),
        (("create", "--weight", "0"), "weight: Input should be greater than 0"),
        (("create", "--limit", "max_n=0"), "max_n: Input should be greater than or equal to 1"),
    ],
)
def test_errors_are_printed_in_one_line(path: Path, arguments: tuple[str, ...], problem: str) -> None:
    """The error has the reason, and the file is unchanged."""
    keys(path, "create", "--id", "team")
    before = path.read_bytes()
    error = keys(path, *arguments, code=1)
    assert problem in error
    assert len(error.splitlines()) == 1
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "arguments", [("--limit", "max_m=1"), ("--limit", "max_n=x"), ("--expires", "soon"), ("--scope", "all")]
)
def test_invalid_options_exit_with_code_2(path: Path, arguments: tuple[str, ...]) -> None:
    """Invalid options exit with code 2, and no file is created."""
    assert "Invalid value" in keys(path, "create", *arguments, code=2)
    assert not path.exists()


@pytest.mark.slow
def test_concurrent_creates_lose_no_key(path: Path) -> None:
    """Eight processes that create keys at the same time keep each other's entries."""
    command = [sys.executable, "-m", "cli", "keys", "create", "--file", str(path)]
    made = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(8)]
    printed = [each.communicate()[0].decode().strip() for each in made]
    callers = {ring(path).caller(key, time.time()).id for key in printed}
    assert len(callers) == 8
