"""Asks whether a pinned package has a known vulnerability: pip-audit for Python's, npm audit for npm's.

Exit code 1 for a finding. Where a registry answers no such questions, this says so: it is no finding, and no all-clear.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NO_ANSWER = "not asked: this registry answers no such questions"


def python_findings(audit: dict[str, Any]) -> tuple[list[str], str]:
    """Of pip-audit's JSON: a line for each vulnerability, and a summary."""
    packages = audit["dependencies"]
    findings = [
        f"{package['name']} {package['version']}: {each['id']}, mended in {each['fix_versions'] or 'no version'}"
        for package in packages
        for each in package.get("vulns", [])
    ]
    asked = sum("skip_reason" not in package for package in packages)
    if asked == 0:
        return findings, NO_ANSWER
    return (
        findings,
        f"known vulnerabilities: {len(findings)} in {asked} packages; not answered for {len(packages) - asked}",
    )


def npm_findings(audit: dict[str, Any]) -> tuple[list[str], str]:
    """Of npm audit's JSON: the same."""
    if "vulnerabilities" not in audit:
        return [], NO_ANSWER
    found = audit["vulnerabilities"]
    findings = [f"{name} {each['range']}: {each['severity']}" for name, each in found.items()]
    return findings, f"known vulnerabilities: {len(findings)} in {audit['metadata']['dependencies']['total']} packages"


def ask(*command: str) -> dict[str, Any]:
    """The JSON that a command prints, whatever its exit code; nothing if it printed none."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError:
        return {}
    return answer


def main() -> int:
    """Print what was found, and return the exit code."""
    program = str(ROOT / ".venvs" / "tool-audit" / "bin" / "pip-audit")
    python = ask(program, "-r", "constraints.txt", "--disable-pip", "--require-hashes", "--format", "json")
    results = {
        "pip-audit": python_findings(python or {"dependencies": []}),
        "npm audit": npm_findings(ask("npm", "audit", "--json", "--prefix", "tools")),
        "npm audit of examples": npm_findings(ask("npm", "audit", "--json", "--prefix", "examples")),
    }
    for name, (findings, summary) in results.items():
        print("\n".join([*findings, f"{name}: {summary}"]))
    return int(any(findings for findings, _ in results.values()))


if __name__ == "__main__":
    sys.exit(main())
