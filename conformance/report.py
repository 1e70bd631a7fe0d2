"""The report on all claims: as JSON, as Markdown, and as lines for a terminal."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import get_args

from conformance.claim import Finding, Result

RESULTS: tuple[Result, ...] = get_args(Result)
MARKS: dict[Result, str] = {"passed": "ok", "failed": "FAILED", "not applicable": "n/a"}


@dataclass(frozen=True)
class Report:
    """The findings about a server; `model` is the tested model."""

    url: str
    dialect: str
    model: str
    findings: Sequence[Finding]

    def counts(self) -> dict[Result, int]:
        """Return the number of claims by result."""
        counted = Counter(finding.result for finding in self.findings)
        return {result: counted[result] for result in RESULTS}

    def json(self) -> str:
        """Return a JSON object: url, dialect, model, counts, findings."""
        return json.dumps({**asdict(self), "counts": self.counts()}, ensure_ascii=False, indent=2) + "\n"

    def markdown(self) -> str:
        """Return a Markdown table with a row for each claim."""
        head = [
            f"# Conformance: {self.dialect}",
            "",
            f"`{self.model}` at {self.url}: {self.summary()}.",
            "",
            "| id | claim | reference | result | seen |",
            "|---|---|---|---|---|",
        ]
        rows = [
            f"| `{each.id}` | {_cell(each.claim)} | {_cell(each.reference)} | {each.result} | {_cell(each.seen)} |"
            for each in self.findings
        ]
        return "\n".join([*head, *rows, ""])

    def table(self) -> str:
        """Return the counts for each kind of claim, which is the part of its id before the dot, and for all claims."""
        kinds = list(dict.fromkeys(finding.id.partition(".")[0] for finding in self.findings))
        rows = [
            (kind, Counter(each.result for each in self.findings if each.id.startswith(f"{kind}."))) for kind in kinds
        ]
        rows.append(("all", Counter(self.counts())))
        head = f"{'':10}" + "".join(f"{result:>16}" for result in RESULTS)
        return "\n".join(
            [head, *(f"{kind:10}" + "".join(f"{counted[result]:16}" for result in RESULTS) for kind, counted in rows)]
        )

    def summary(self) -> str:
        """Return the counts as one phrase."""
        return ", ".join(f"{count} {result}" for result, count in self.counts().items())


def line(finding: Finding) -> str:
    """Return a finding as text for a terminal, with the observation unless the claim passed."""
    head = f"{MARKS[finding.result]:7} {finding.id:24} {finding.claim}"
    return head if finding.result == "passed" else f"{head}\n{'':8}seen: {finding.seen}"


def _cell(text: str) -> str:
    """Return the text escaped for a cell of a Markdown table."""
    return "".join(f"\\{each}" if each in "\\|`*_<>[]" else each for each in text)
