"""Write Grafana's dashboards from deploy/grafana/panels.yaml: `python -m tools.dashboards`; `--check` compares them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import yaml

FOLDER = Path(__file__).parents[1] / "deploy" / "grafana"
_WIDTH, _HEIGHT, _COLUMNS = 8, 8, 24
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}

Table: TypeAlias = Mapping[str, Any]


def to_grafana(dashboard: Table) -> dict[str, Any]:
    """Return a dashboard in the form that Grafana imports."""
    panels: list[dict[str, Any]] = []
    top = 0
    choice = dashboard["choice"]
    where = f'{choice["label"]}=~"${choice["variable"]}"'
    for row in dashboard["rows"]:
        place = _place(0, top, _COLUMNS, 1)
        panels.append({"type": "row", "title": row["title"], "id": len(panels) + 1, "gridPos": place, "panels": []})
        top += 1
        for number, panel in enumerate(row["panels"]):
            line, column = divmod(number * _WIDTH, _COLUMNS)
            place = _place(column, top + line * _HEIGHT, _WIDTH, _HEIGHT)
            panels.append(_panel(panel, panel.get("where", where), len(panels) + 1, place))
        top += -(-len(row["panels"]) * _WIDTH // _COLUMNS) * _HEIGHT
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    return {
        "uid": f"sluice-{dashboard['name']}",
        "title": dashboard["title"],
        "tags": ["sluice"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [source, _variable(choice)]},
        "panels": panels,
    }


def queries(panel: Table, where: str) -> Iterator[tuple[str, str]]:
    """Yield a panel's PromQL queries with their legends."""
    by = panel.get("by", "")
    legend = " ".join(f"{{{{{label}}}}}" for label in by.split(", "))
    if metric := panel.get("rate"):
        yield f"sum by ({by}) (rate({metric}{{{where}}}[$__rate_interval]))", legend
    if metric := panel.get("quantiles"):
        rates = f"sum by (le, {by}) (rate({metric}_bucket{{{where}}}[$__rate_interval]))"
        for percent in (50, 95, 99):
            yield f"histogram_quantile({percent / 100:g}, {rates})", f"{legend} p{percent}"
    for query in panel.get("queries", ()):
        yield query["expr"].replace("$where", where), query["legend"]


def _place(left: int, top: int, width: int, height: int) -> dict[str, int]:
    return {"x": left, "y": top, "w": width, "h": height}


def _variable(choice: Table) -> dict[str, Any]:
    query = f"label_values({choice['metric']}, {choice['label']})"
    return {
        "name": choice["variable"],
        "type": "query",
        "datasource": _DATASOURCE,
        "query": {"query": query, "refId": choice["variable"]},
        "definition": query,
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(panel: Table, where: str, number: int, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + index), "datasource": _DATASOURCE, "expr": query, "legendFormat": legend}
        for index, (query, legend) in enumerate(queries(panel, where))
    ]
    return {
        "type": "timeseries",
        "id": number,
        "title": panel["title"],
        "gridPos": place,
        "datasource": _DATASOURCE,
        "fieldConfig": {"defaults": {"unit": panel["unit"], "min": 0}, "overrides": []},
        "targets": targets,
    }


def made() -> dict[str, str]:
    """Return the text of each file, by name."""
    table = yaml.safe_load((FOLDER / "panels.yaml").read_text())
    return {f"{each['name']}.json": json.dumps(to_grafana(each), indent=1) + "\n" for each in table}


def main() -> None:
    """Write the dashboards, or with `--check` report those that differ from the table."""
    texts = made()
    if "--check" not in sys.argv:
        for name, text in texts.items():
            (FOLDER / name).write_text(text)
        return
    there = {file.name: file.read_text() for file in FOLDER.glob("*.json")}
    if stale := sorted(name for name in {*texts, *there} if texts.get(name) != there.get(name)):
        sys.exit(f"out of date: {', '.join(stale)}; run: python -m tools.dashboards")


if __name__ == "__main__":
    main()
