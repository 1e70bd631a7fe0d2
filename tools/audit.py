"""Report known vulnerabilities of the pinned packages, by pip-audit for Python's and npm audit for npm's.

The exit code is 1 if there is a finding. A registry without vulnerability data is reported as such: that is neither a
finding nor an all-clear.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NO_ANSWER = "not audited: this registry has no vulnerability data"


def python_findings(audit: dict[str, Any]) -> tuple[list[str], str]:
    """Return a line for each vulnerability in pip-audit's JSON, and a summary."""
    packages = audit["dependencies"]
    findings = [
        f"{package['name']} {package['version']}: {each['id']}, fixed in {each['fix_versions'] or 'no version'}"
        for package in packages
        for each in package.get("vulns", [])
    ]
    num_audited = sum("skip_reason" not in package for package in packages)
    if num_audited == 0:
        return findings, NO_ANSWER
    return (
        findings,
        f"known vulnerabilities: {len(findings)} in {num_audited} packages; no data for {len(packages) - num_audited}",
    )


def npm_findings(audit: dict[str, Any]) -> tuple[list[str], str]:
    """Return a line for each vulnerability in npm audit's JSON, and a summary."""
    if "vulnerabilities" not in audit:
        return [], NO_ANSWER
    found = audit["vulnerabilities"]
    findings = [f"{name} {each['range']}: {each['severity']}" for name, each in found.items()]
    return findings, f"known vulnerabilities: {len(findings)} in {audit['metadata']['dependencies']['total']} packages"


def ask(*command: str) -> dict[str, Any]:
    """Return the JSON that a command prints, regardless of its exit code; empty if it prints none."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError:
        return {}
    return answer


def main() -> int:
    """Print the findings and return the exit code."""
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
