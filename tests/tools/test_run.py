"""What the runner makes of its settings, and refuses before anything starts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from tools.run_settings import RunError, Settings, check


def test_one_port_for_two_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both settings are named; each port by itself would be free."""
    monkeypatch.setattr(sys, "argv", ["run", "--endpoints-file", str(tmp_path / "endpoints.json")])
    settings = Settings(envoy_port=18999, gateway_port=18999)
    with pytest.raises(RunError, match="envoy_port and gateway_port are both 18999"):
        check(settings)


@pytest.mark.parametrize(
    ("flags", "origins"),
    [
        ([], ()),
        (["--cors-origins=https://a.example, http://B.example:3000"], ("https://a.example", "http://b.example:3000")),
        (
            ["--cors-origins=https://a.example", "--cors-origins=http://b.example"],
            ("https://a.example", "http://b.example"),
        ),
        (["--cors-origins=*"], ("*",)),
    ],
)
def test_origins_of_pages(flags: list[str], origins: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """With commas or by several flags, as browsers write them."""
    monkeypatch.setattr(sys, "argv", ["run", *flags])
    assert Settings().cors_origins == origins
    monkeypatch.setattr(sys, "argv", ["run"])
    monkeypatch.setenv("SLUICE_CORS_ORIGINS", ",".join(origins))
    assert Settings().cors_origins == origins


@pytest.mark.parametrize("origin", ["https://a.example/", "a.example", "https://*.example", "https://a b"])
def test_what_is_no_origin_is_refused(origin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A browser would never send it, so that nobody could call, without a word why."""
    monkeypatch.setattr(sys, "argv", ["run", f"--cors-origins={origin}"])
    with pytest.raises(ValidationError, match="is no origin; expected SCHEME://HOST"):
        Settings()
