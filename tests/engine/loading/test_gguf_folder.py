"""The folder of a GGUF file: where it is written, and what killed processes leave there."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

import pytest

from service.engine.loading.gguf.gguf_folder import gguf_folder
from service.engine.loading.gguf.unfinished_folder import unfinished_folder
from service.generation.errors import ModelLoadError

_EMPTY = b"GGUF" + struct.pack("<IQQ", 3, 0, 0)  # version 3 without tensors and metadata


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "model.gguf"
    file.write_bytes(_EMPTY)
    return file


def test_a_cache_that_cannot_be_written_is_a_load_error(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error advises the variable that names another folder."""
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(ModelLoadError, match=r"model\.gguf: its settings can't be written: .*; set XDG_CACHE_HOME"):
        gguf_folder(file)


def test_a_user_without_a_home_gets_a_load_error(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's user often has no entry in its list of users."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 3_999_999_999)
    with pytest.raises(ModelLoadError, match=r"home directory.*; set XDG_CACHE_HOME to a folder"):
        gguf_folder(file)


def test_a_failed_build_leaves_nothing(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file whose settings can't be read is a load error, and its unfinished folder is removed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(ModelLoadError):
        gguf_folder(file)
    assert list((tmp_path / "cache" / "sluice" / "gguf").iterdir()) == []


def test_folders_that_killed_processes_left_are_removed(tmp_path: Path) -> None:
    """A folder that a process still fills, which holds its lock, is kept, as are complete ones and files."""
    left, held = tmp_path / "other-0123456789ab.abcd_123", tmp_path / "model-0123456789ab.xyz_4567"
    complete, text = tmp_path / "model.v2-0123456789ab", tmp_path / "notes.abcdefgh"
    for folder in (left, held, complete):
        folder.mkdir()
        (folder / "config.json").write_text("{}")
    text.write_text("")
    handle = os.open(held, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with unfinished_folder(tmp_path / "new-0123456789ab") as building:
            assert {*tmp_path.iterdir()} == {held, complete, text, building}
    finally:
        os.close(handle)
    with unfinished_folder(tmp_path / "new-0123456789ab") as building:
        assert {*tmp_path.iterdir()} == {complete, text, building}


def test_two_folders_are_filled_at_once(tmp_path: Path) -> None:
    """Neither removes the other; the one that is renamed stays."""
    folder = tmp_path / "model-0123456789ab"
    with unfinished_folder(folder) as first, unfinished_folder(folder) as second:
        assert first.is_dir()
        assert second.is_dir()
        second.rename(folder)
    assert list(tmp_path.iterdir()) == [folder]
