"""What the runner refuses before anything starts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools.run_settings import RunError, Settings, check


def test_one_port_for_two_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both settings are named; each port by itself would be free."""
    monkeypatch.setattr(sys, "argv", ["run", "--endpoints-file", str(tmp_path / "endpoints.json")])
    settings = Settings(envoy_port=18999, gateway_port=18999)
    with pytest.raises(RunError, match="envoy_port and gateway_port are both 18999"):
        check(settings)
