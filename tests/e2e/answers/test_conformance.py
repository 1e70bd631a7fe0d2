"""The conformance kit reports that the product meets every claim of every dialect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.attacks.raid import ATTACKS
from conformance.dialects import DIALECTS
from tests.e2e.guarded import Guarded
from tests.e2e.stack import Stack, started
from tests.waiting import GUARD_S

CHEAP = ("ssrf", "smuggling", "headers", "names", "texts")  # kinds of attacks that cost little


@pytest.mark.parametrize("dialect", DIALECTS)
def test_product_passes_all_conformance_claims(
    stack: Stack, dialect: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All claims pass through Envoy, except the one about API keys, which this product does not require."""
    path = tmp_path / "report.json"
    code = main(["--url", stack.url, "--dialect", dialect, "--model", "sluice-demo", "--json", str(path)])
    assert code == 0, capsys.readouterr().out
    found = json.loads(path.read_text())["findings"]
    assert [each["id"] for each in found if each["result"] != "passed"] == ["errors.key"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_conformance_kit_sends_a_key_in_each_dialect(
    guarded: Guarded, dialect: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The product accepts a valid key, and rejects an invalid one with the dialect's own error."""
    where = ["--url", guarded.stack.url, "--dialect", dialect, "--model", "sluice-demo"]
    code = main([*where, "--key", guarded.keys["team"], "--only", "errors.key", "errors.harmless"])
    assert code == 0, capsys.readouterr().out


@pytest.mark.parametrize("dialect", sorted(set(DIALECTS) - {"mindie"}))
def test_conformance_kit_uses_the_served_model_by_default(
    stack: Stack, dialect: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without --model, the kit uses the served model."""
    assert main(["--url", stack.url, "--dialect", dialect, "--only", "errors.harmless"]) == 0
    model = "sluice-demo:latest" if dialect == "ollama" else "sluice-demo"  # as its list has it
    assert f"{dialect}, {model} at {stack.url}: 1 passed" in capsys.readouterr().out


def test_product_withstands_cheap_attacks(stack: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    """URLs, framing, heads, names and texts do no harm, and others are served after each attack."""
    ids = [each.id for each in ATTACKS if each.id.partition(".")[0] in CHEAP]
    where = ["--url", stack.url, "--attack", "--model", "sluice-demo", "--timeout-s", str(GUARD_S)]
    assert main([*where, "--only", *ids]) == 0, capsys.readouterr().out


@pytest.mark.long
def test_product_withstands_all_attacks(capsys: pytest.CaptureFixture[str]) -> None:
    """No attack causes a server error, takes much memory or keeps others from being served; heavy ones neither."""
    with started() as stack:
        where = ["--url", stack.url, "--attack", "--heavy", "--model", "sluice-demo", "--pid", str(stack.process.pid)]
        assert main([*where, "--timeout-s", str(GUARD_S)]) == 0, capsys.readouterr().out


def test_product_with_keys_withstands_attacks_on_them(guarded: Guarded, capsys: pytest.CaptureFixture[str]) -> None:
    """No guess, variant, scheme or spelling of a path replaces a key."""
    ids = [attack.id for attack in ATTACKS if attack.id.startswith("keys.")]
    where = ["--url", guarded.stack.url, "--attack", "--model", "sluice-demo", "--key", guarded.keys["team"]]
    assert main([*where, "--timeout-s", str(GUARD_S), "--only", *ids]) == 0, capsys.readouterr().out
