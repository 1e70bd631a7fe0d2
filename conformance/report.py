"""What came of all claims, as JSON, as Markdown, and as lines on a terminal."""

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
    """The findings about a server; `model` is the one that was asked."""

    url: str
    dialect: str
    model: str
    findings: Sequence[Finding]

    def counts(self) -> dict[Result, int]:
        """How many claims had each result."""
        counted = Counter(finding.result for finding in self.findings)
        return {result: counted[result] for result in RESULTS}

    def json(self) -> str:
        """One object: url, dialect, model, counts, findings."""
        return json.dumps({**asdict(self), "counts": self.counts()}, ensure_ascii=False, indent=2) + "\n"

    def markdown(self) -> str:
        """A table of all claims, a row each."""
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
        """The counts for each kind of claim, the part of its id before the dot, and for all."""
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
        """The counts in words."""
        return ", ".join(f"{count} {result}" for result, count in self.counts().items())


def line(finding: Finding) -> str:
    """A finding for a terminal: what failed or couldn't be tried with what was seen."""
    head = f"{MARKS[finding.result]:7} {finding.id:24} {finding.claim}"
    return head if finding.result == "passed" else f"{head}\n{'':8}seen: {finding.seen}"


def _cell(text: str) -> str:
    """A cell of a Markdown table, which nothing within can end, and no markup can begin."""
    return "".join(f"\\{each}" if each in "\\|`*_<>[]" else each for each in text)
