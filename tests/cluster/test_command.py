"""`sluice ray` reports in one line why it can't start."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cluster.__main__ import main


def test_invalid_deployments_are_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "ray.yaml")]) == 2
    assert capfd.readouterr().err == f"sluice ray: {tmp_path}/ray.yaml: No such file or directory\n"


def test_without_ray_the_error_names_the_installation(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "cluster.nodes", raising=False)
    (tmp_path / "fleet.yaml").write_text(f"{{hosts_folder: {tmp_path}, services: [{{}}]}}")
    (tmp_path / "ray.yaml").write_text("{fleet: fleet.yaml, pools: [{}]}")
    assert main([str(tmp_path / "ray.yaml")]) == 2
    assert (
        capfd.readouterr().err == "sluice ray: Ray is not installed; install it with: pip install 'sluice-llm[ray]'\n"
    )
