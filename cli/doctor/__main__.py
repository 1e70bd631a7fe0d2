"""Run `sluice doctor`: print one row per check. The exit code is 1 if a check failed, 2 for invalid settings."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cli.calls.options import print_json, print_text
from cli.doctor.files import check_certificate, check_files
from cli.doctor.finding import Finding, Status
from cli.doctor.machine import check_instruction_set, check_memory, check_ports, check_versions
from process.errors import ConfigError
from process.settings.process_settings import read_settings
from runner.settings import Settings


def diagnose(settings: Settings, certificates: list[Path]) -> list[Finding]:
    """Return the findings of all checks, in the order in which they are printed."""
    return [
        *check_versions(),
        check_instruction_set(),
        *check_memory(settings),
        *check_ports(settings),
        *check_files(settings),
        *(check_certificate(path) for path in certificates),
    ]


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="sluice doctor",
        allow_abbrev=False,
        description="Check memory, ports, permissions, certificates, versions and the instruction set. "
        "All other arguments are those of `sluice serve`.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--certificate", action="append", type=Path, default=[], metavar="FILE", help="a PEM file to check; repeatable"
    )
    options, rest = parser.parse_known_args()
    try:
        settings = read_settings(Settings, rest)
    except ConfigError as error:
        for problem in error.problems:
            print_text(f"sluice: {problem}", err=True)
        return 2
    findings = diagnose(settings, options.certificate)
    if options.json:
        print_json([each.as_plain() for each in findings])
    else:
        for each in findings:
            print_text(f"{each.status:8}{each.name:24}{each.text}")
    return 1 if any(each.status is Status.FAILED for each in findings) else 0


if __name__ == "__main__":
    sys.exit(main())
