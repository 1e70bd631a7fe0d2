"""Prometheus' rules: promtool accepts them, each alert fires in time and alone, and each has a page."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.rule_cases import CASES, Case
from tools.dashboards import made

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "rules.yaml"
ALERTS = {
    rule["alert"]: rule
    for group in yaml.safe_load(RULES.read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
}


def expected(minute: int, *alerts: str) -> dict[str, Any]:
    """Return the expected alerts at a minute."""
    samples = [{"labels": f'{{alertname="{each}"}}', "value": 1} for each in alerts]
    expression = 'count by (alertname) (ALERTS{alertstate="firing"})'
    return {"expr": expression, "eval_time": f"{minute}m", "exp_samples": samples}


def history(series: dict[str, str], *expectations: dict[str, Any]) -> dict[str, Any]:
    """Return one test in promtool's format."""
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    return {"interval": "1m", "input_series": inputs, "promql_expr_test": list(expectations)}


@pytest.mark.deploy
@pytest.mark.parametrize("case", CASES, ids=[case.alert for case in CASES])
def test_alert_fires_in_time_and_alone(case: Case, tmp_path: Path) -> None:
    """The alert fires alone and not before its time, and never for similar series."""
    tests = [history(case.series, expected(case.quiet), expected(case.fires, case.alert))]
    if case.near:
        tests.append(history(case.near, *(expected(minute) for minute in (case.fires, 59))))
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.deploy
def test_prometheus_accepts_rules_and_configuration() -> None:
    """Promtool accepts the rules and the configuration."""
    folder = RULES.parent
    for kind, file in (("rules", RULES), ("config", folder / "prometheus.yaml")):
        done = subprocess.run(["promtool", "check", kind, str(file)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_case() -> None:
    """Each alert has exactly one case."""
    assert sorted(case.alert for case in CASES) == sorted(ALERTS)


@pytest.mark.parametrize("alert", sorted(ALERTS))
def test_every_alert_has_a_page(alert: str) -> None:
    """The page has meaning, diagnosis and action; the list of pages names the alert with its severity."""
    rule = ALERTS[alert]
    page = ROOT / rule["annotations"]["runbook_url"]
    assert page.stem == alert
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    assert headings == [alert, "What it means", "How to see it", "What to do"]
    listed = (page.parent / "README.md").read_text()
    assert re.search(rf"\| \[{alert}\]\({alert}\.md\) \| {rule['labels']['severity']} \|", listed), alert


def test_every_page_has_an_alert() -> None:
    """Every page except the list belongs to an alert."""
    pages = {page.stem for page in (ROOT / "docs" / "runbooks").glob("*.md")}
    assert pages == {*ALERTS, "README"}


def test_rules_and_dashboards_use_existing_metrics() -> None:
    """The metrics are in docs/operation/metrics.md, recorded by rules, or from Prometheus' client."""
    known = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "operation" / "metrics.md").read_text(), re.MULTILINE))
    text = RULES.read_text() + "".join(file.read_text() for file in (ROOT / "deploy" / "grafana").glob("*.json"))
    for name in set(
        re.findall(r"\b(?:sluice|gen_ai_server|gen_ai_client|rpc_server|rpc_client|http_server)_\w+", text)
    ):
        if (
            name.endswith(
                ("_error_reason", "_endpoint", "_entity", "_key", "_limit", "_outcome", "_slo_class", "_slo_met")
            )
            or name == "sluice_refresh"
        ):
            continue  # labels
        assert name in known or re.sub(r"_(bucket|count|sum)$", "", name) in known, name


@pytest.mark.deploy
def test_prometheus_accepts_the_dashboards_queries(tmp_path: Path) -> None:
    """Every query is PromQL, once Grafana's variables have values."""
    asked = [
        query
        for file in sorted((ROOT / "deploy" / "grafana").glob("*.json"))
        for panel in json.loads(file.read_text())["panels"]
        for query in (target["expr"] for target in panel.get("targets", ()))
    ]
    assert len(asked) > 50
    rules = [{"record": f"asked:{number}", "expr": re.sub(r"\$\w+", "5m", query)} for number, query in enumerate(asked)]
    file = tmp_path / "asked.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "asked", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_dashboards_are_up_to_date() -> None:
    """The dashboards equal the output of `python -m tools.dashboards`."""
    assert {file.name: file.read_text() for file in (ROOT / "deploy" / "grafana").glob("*.json")} == made()
