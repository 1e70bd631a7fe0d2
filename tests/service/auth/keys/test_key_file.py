"""Reading and writing a keys file, and errors in it."""

import os
import stat
from pathlib import Path

import pytest

from service.auth.keys.key_entry import KeysError, dump, load
from service.auth.keys.key_file import read_keys, reread_keys, write_keys
from service.auth.watched_file import WatchedFile
from tests.service.auth.key_files import key_of

HASH = "0" * 64
GOOD = f"{{id: team, sha256: '{HASH}', scopes: [generate]"


def test_written_keys_are_read_back() -> None:
    """All fields are restored, and default values are not written."""
    _, plain = key_of("plain")
    _, full = key_of(
        "full", name="größer", scopes=["embed", "endpoints:write"], models=["a*"], endpoints=["b"], disabled=True,
        limits={"requests_per_minute": 5}, limits_by_model={"x": {"max_n": 1}}, min_priority=-100, weight=0.5,
        cache_group="g", slo_first_token_seconds=1, slo_token_seconds=0.05,
        expires="2027-01-01T00:00:00+02:00", previous_sha256=HASH, previous_expires="2027-01-01",
    )  # fmt: skip
    text = dump([plain, full])
    assert load(text) == [plain, full]
    assert "null" not in text
    assert text.count("weight") == 1


def test_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    """The mode is 0600 regardless of the umask and the previous mode, and no temporary file is left."""
    path = tmp_path / "keys.yaml"
    path.write_text("keys: []")
    path.chmod(0o666)
    before = os.umask(0)
    try:
        write_keys(path, [key_of("team")[1]])
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_symbolic_link_is_kept(tmp_path: Path) -> None:
    """The link's target is replaced."""
    path, link = tmp_path / "real.yaml", tmp_path / "keys.yaml"
    path.write_text("keys: []")
    link.symlink_to(path)
    write_keys(link, [key_of("team")[1]])
    assert link.is_symlink()
    assert [entry.id for entry in read_keys(path)] == ["team"]


@pytest.mark.parametrize("text", ["", "keys: []", "{}", "# nothing yet"])
def test_file_without_keys_is_valid(text: str) -> None:
    """No key is valid then."""
    assert load(text) == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("keys: [", "expected the node content"),
        ("[]", "the file must have one name, keys, with a list of keys"),
        ("keys: [{expires: 2027-02-30}]", "not valid YAML: day is out of range for month"),
        ("keys: {}", "the file must have one name, keys, with a list of keys"),
        ("key: []", "the file must have one name, keys, with a list of keys"),
        ("keys: [{id: team}]", "keys[0] (team): sha256: Field required"),
        (f"keys: [{{sha256: '{HASH}'}}]", "keys[0]: id: Field required"),
        (f"keys: [{GOOD}}}, {GOOD}}}]", "keys[1] (team): id: another key has it, too"),
        (f"keys: [{GOOD}, colour: red}}]", "keys[0] (team): colour: unknown field"),
        (f"keys: [{GOOD}, models: a}}]", "keys[0] (team): models: "),
        (f"keys: [{GOOD}, weight: 0}}]", "keys[0] (team): weight: Input should be greater than 0"),
        (f"keys: [{GOOD}, min_priority: -101}}]", "keys[0] (team): min_priority: "),
        (f"keys: [{GOOD}, slo_token_seconds: 0}}]", "keys[0] (team): slo_token_seconds: "),
        (f"keys: [{GOOD}, slo_first_token_seconds: .nan}}]", "keys[0] (team): slo_first_token_seconds: "),
        (f"keys: [{GOOD}, limits: {{max_m: 1}}}}]", "keys[0] (team): limits.max_m: unknown field"),
        (
            f"keys: [{GOOD}, limits: {{max_n: 0}}}}]",
            "keys[0] (team): limits.max_n: Input should be gr",
        ),
        (f"keys: [{GOOD}, limits_by_model: {{m: {{max_n: x}}}}}}]", "keys[0] (team): limits_by_model.m.max_n: "),
        (f"keys: [{GOOD}, previous_sha256: '{HASH}'}}]", "previous_sha256 and previous_expires must be set together"),
        (f"keys: [{{id: a, sha256: '{HASH}', scopes: [generate, all]}}]", "keys[0] (a): scopes[1]: Input should be 'g"),
        (f"keys: [{{id: Team, sha256: '{HASH}'}}]", "keys[0] (Team): id: "),
    ],
)
def test_error_names_the_entry_and_the_field(text: str, complaint: str) -> None:
    """The error is one line that identifies the position."""
    with pytest.raises(KeysError) as caught:
        load(text)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_error_about_a_file_begins_with_its_path(tmp_path: Path) -> None:
    """A missing file is reported with its path, too."""
    path = tmp_path / "keys.yaml"
    with pytest.raises(KeysError, match=f"^{path}: No such file"):
        read_keys(path)
    path.write_bytes(b"\xff")
    with pytest.raises(KeysError, match=f"^{path}: not in UTF-8"):
        read_keys(path)


def test_changed_file_is_read_once_per_change(tmp_path: Path) -> None:
    """A broken version is reported once and keeps the previous keys, and so does a missing file."""
    path = tmp_path / "keys.yaml"
    write_keys(path, [key_of("first")[1]])
    watched = WatchedFile(path, read_keys)
    assert not watched.refresh()
    path.write_text("keys: [")
    with pytest.raises(KeysError):
        watched.refresh()
    assert not watched.refresh()
    path.unlink()
    with pytest.raises(KeysError):
        watched.refresh()
    assert [entry.id for entry in watched.content] == ["first"]
    write_keys(path, [key_of("second")[1]])
    assert watched.refresh()
    assert [entry.id for entry in watched.content] == ["second"]


def test_an_emptied_file_revokes_no_keys(tmp_path: Path) -> None:
    """A file without text may be half-written, and is rejected on a reload; an explicit empty list is used."""
    path = tmp_path / "keys.yaml"
    write_keys(path, [key_of("first")[1]])
    watched = WatchedFile(path, read_keys, reread_keys)
    path.write_text(" \n")
    with pytest.raises(KeysError, match="the file is empty; to revoke all keys, write `keys: \\[\\]`"):
        watched.refresh()
    assert [entry.id for entry in watched.content] == ["first"]
    path.write_text("keys: []\n")
    assert watched.refresh()
    assert watched.content == []
