"""Limits of control groups: of version 2 and 1, with cached pages, nested, and without a limit."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from service.engine.device import control_groups, memory
from service.engine.device.control_groups import memory_left


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of groups of which this process is in none."""
    root = tmp_path / "groups"
    monkeypatch.setattr(control_groups, "ROOT", root)
    set_own_groups(monkeypatch, tmp_path, "0::/\n")
    return root


def set_own_groups(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> None:
    (folder / "own").write_text(text)
    monkeypatch.setattr(control_groups, "OWN", folder / "own")


def write_group(folder: Path, **values: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in values.items():
        (folder / name.replace("__", ".")).write_text(f"{value}\n")


def test_the_cache_is_limited_by_the_container(root: Path) -> None:
    """The cache gets half of what the limit leaves, if that is less than the available memory."""
    write_group(root, memory__current=1_000_000, memory__max=3_000_000)
    assert memory.cache_bytes() == 1_000_000
    write_group(root, memory__max="max")
    assert memory.cache_bytes() > 1_000_000


def test_cached_pages_of_files_are_available(root: Path) -> None:
    """Pages that reading the weights has cached don't count as used; files in memory and other pages do."""
    stat = "anon 100\nfile 700\nshmem 50\ninactive_file 400\nactive_file 250\nunevictable 0"
    write_group(root, memory__current=900, memory__max=1000, memory__stat=stat)
    assert memory_left() == 1000 - (900 - 650)


def test_limits_of_version_1(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of version 1 are read, and the values of the groups below are included."""
    stat = "cache 700\ninactive_file 1\nactive_file 2\ntotal_inactive_file 400\ntotal_active_file 250"
    write_group(root / "memory" / "box", memory__limit_in_bytes=1000, memory__usage_in_bytes=900, memory__stat=stat)
    write_group(root / "memory", memory__limit_in_bytes=9223372036854771712, memory__usage_in_bytes=5000)
    set_own_groups(monkeypatch, tmp_path, "5:cpu,cpuacct:/\n4:memory:/box\n0::/\n")
    assert memory_left() == 1000 - (900 - 650)


def test_a_container_that_sees_its_own_group_as_the_root(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its path, which is relative to the host's root, does not exist; the visible root has the limit."""
    write_group(root / "memory", memory__limit_in_bytes=1000, memory__usage_in_bytes=900)
    set_own_groups(monkeypatch, tmp_path, "4:memory:/docker/0123\n0::/../other\n")
    assert memory_left() == 100


def test_the_smallest_limit_of_the_groups_above(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A systemd unit's limit, and that of its slice, apply."""
    write_group(root / "system.slice" / "sluice.service", memory__current=200, memory__max=1000)
    write_group(root / "system.slice", memory__current=900, memory__max=1500)
    write_group(root / "other.slice", memory__current=900, memory__max=900)
    set_own_groups(monkeypatch, tmp_path, "0::/system.slice/sluice.service\n")
    assert memory_left() == 600
    write_group(root / "system.slice", memory__max="max")
    assert memory_left() == 800


def test_no_limit(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without groups, or without a limit, all memory is available."""
    assert memory_left() == sys.maxsize
    write_group(root, memory__current=900, memory__max="max")
    assert memory_left() == sys.maxsize
    monkeypatch.setattr(control_groups, "OWN", root / "missing")
    assert memory_left() == sys.maxsize
