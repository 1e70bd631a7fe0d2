"""The conformance kit finds that the product keeps every claim of every dialect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.dialects import DIALECTS
from tests.e2e.guarded import Guarded
from tests.e2e.stack import Stack


@pytest.mark.parametrize("dialect", DIALECTS)
def test_product_conforms(stack: Stack, dialect: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All claims pass through the front door, but for the one about keys, which it doesn't ask for."""
    path = tmp_path / "report.json"
    code = main(["--url", stack.door, "--dialect", dialect, "--model", "sluice-demo", "--json", str(path)])
    assert code == 0, capsys.readouterr().out
    found = json.loads(path.read_text())["findings"]
    assert [each["id"] for each in found if each["result"] != "passed"] == ["errors.key"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_key_is_given_in_each_dialect(guarded: Guarded, dialect: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With a key the product answers, and refuses a wrong one as the dialect has it."""
    where = ["--url", guarded.stack.door, "--dialect", dialect, "--model", "sluice-demo"]
    code = main([*where, "--key", guarded.keys["team"], "--only", "errors.key", "errors.harmless"])
    assert code == 0, capsys.readouterr().out


@pytest.mark.parametrize("dialect", sorted(set(DIALECTS) - {"mindie"}))
def test_model_is_found_where_none_is_named(stack: Stack, dialect: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--url", stack.door, "--dialect", dialect, "--only", "errors.harmless"]) == 0
    assert f"{dialect}, sluice-demo at {stack.door}: 1 passed" in capsys.readouterr().out
