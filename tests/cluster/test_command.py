"""`sluice ray` says in a line why it can't begin."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cluster.__main__ import main


def test_what_cannot_be_deployed_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "ray.yaml")]) == 2
    assert capfd.readouterr().err == f"sluice ray: {tmp_path}/ray.yaml: No such file or directory\n"


def test_without_ray_it_is_told_how_to_install_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "cluster.nodes", raising=False)
    (tmp_path / "fleet.yaml").write_text(f"{{hosts_folder: {tmp_path}, services: [{{}}]}}")
    (tmp_path / "ray.yaml").write_text("{fleet: fleet.yaml, pools: [{}]}")
    assert main([str(tmp_path / "ray.yaml")]) == 2
    assert capfd.readouterr().err == "sluice ray: Ray is not installed; install it with: pip install 'sluice[ray]'\n"
