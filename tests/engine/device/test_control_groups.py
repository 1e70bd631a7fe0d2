"""Limits of control groups: of version 2 and 1, with cached pages, nested, and without a limit."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from service.engine.device import control_groups, memory
from service.engine.device.control_groups import cpu_limit, memory_left
from service.engine.loading.model_source import num_cores


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [("max 100000", None), ("200000 100000", 2), ("150000 100000", 2), ("5000 100000", 1), ("1600000 100000", 16)],
)
def test_cpus_of_version_2(root: Path, text: str, expected: int | None) -> None:
    """A part of a CPU counts as one."""
    write_group(root, cpu__max=text)
    assert cpu_limit() == expected


@pytest.mark.parametrize(("quota", "expected"), [(-1, None), (250_000, 3), (20_000, 1)])
def test_cpus_of_version_1(root: Path, quota: int, expected: int | None) -> None:
    """The quota and the period are in two files."""
    write_group(root / "cpu", cpu__cfs_quota_us=quota, cpu__cfs_period_us=100_000)
    assert cpu_limit() == expected


def test_the_fewest_cpus_of_the_groups_above(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of a group above applies, and without any there is none."""
    assert cpu_limit() is None
    write_group(root / "system.slice" / "sluice.service", cpu__max="400000 100000")
    write_group(root / "system.slice", cpu__max="300000 100000")
    set_own_groups(monkeypatch, tmp_path, "0::/system.slice/sluice.service\n")
    assert cpu_limit() == 3


def test_a_container_limits_the_threads(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model gets a thread for each core, at most those of the limit; OMP_NUM_THREADS precedes both."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1001, 1002, 1003, 1004})  # whose cores are unknown
    assert num_cores() == 4
    write_group(root, cpu__max="250000 100000")
    assert num_cores() == 3
    write_group(root, cpu__max="900000 100000")
    assert num_cores() == 4
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert num_cores() == 7
