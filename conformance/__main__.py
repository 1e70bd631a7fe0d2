"""Test a server against the reference of its dialect: `python -m conformance --url URL --dialect NAME`.

With `--attack` instead of `--dialect`, a server on this machine is attacked. Prints a line for each claim, then a table
of counts. The exit code is 0 if all applicable claims passed, 1 if one failed or none was applicable, 2 if the server
could not be reached.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx

from conformance.attacks.command import attacked
from conformance.attacks.raid import ATTACKS
from conformance.claim import BrokenError, Finding, UnreachableError
from conformance.dialects import DIALECTS
from conformance.report import Report, line
from conformance.server import Server
from conformance.trial import claims_of, findings


def main(arguments: Sequence[str] | None = None) -> int:
    """Test the server, print and write the report, and return the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.attack == bool(options.dialect):
        parser.error("either --dialect or --attack is required")
    ids = {claim.id for claim in (ATTACKS if options.attack else claims_of(DIALECTS[options.dialect]))}
    unknown = set(options.only or ()) - ids
    if unknown:
        parser.error(f"there are no claims {', '.join(sorted(unknown))}")
    try:
        report = attacked(options, _note) if options.attack else _tested(options)
    except UnreachableError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"\n{report.dialect}, {report.model} at {options.url}: {report.summary()}\n\n{report.table()}")
    for path, text in ((options.json, report.json), (options.markdown, report.markdown)):
        if path:
            path.write_text(text(), encoding="utf-8")
    return int(bool(report.counts()["failed"]) or not report.counts()["passed"])


def _note(finding: Finding) -> None:
    print(line(finding), flush=True)


def _tested(options: argparse.Namespace) -> Report:
    """Test the claims of a dialect and return the report."""
    dialect = DIALECTS[options.dialect]
    headers = dict(dialect.headers) | (dict(dialect.key_header(options.key)) if options.key else {})
    fresh = httpx.Limits(max_keepalive_connections=0)  # no dialect specifies when idle connections are closed
    with httpx.Client(base_url=options.url, headers=headers, timeout=options.timeout_s, limits=fresh) as client:
        try:
            model = options.model or dialect.find_model(client)
        except (BrokenError, httpx.HTTPError, httpx.InvalidURL) as error:
            raise UnreachableError(f"{options.url} did not list its models; name one with --model. {error}") from None
        return Report(options.url, dialect.name, model, findings(Server(client, dialect, model), _note, options.only))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m conformance", description=__doc__)
    parser.add_argument("--url", required=True, help="the server's address, without the dialect's path")
    parser.add_argument("--dialect", choices=DIALECTS, help="the dialect whose claims are tested")
    parser.add_argument("--attack", action="store_true", help="attack the server, which must be on this machine")
    parser.add_argument("--model", help="the model or endpoint to ask (default: the first that the server lists)")
    parser.add_argument("--key", help="the API key, sent in the dialect's header")
    parser.add_argument("--only", nargs="+", metavar="ID", help="ids of the claims to test (default: all)")
    parser.add_argument("--json", type=Path, help="write the report to this file as JSON")
    parser.add_argument("--markdown", type=Path, help="write the report to this file as Markdown")
    parser.add_argument("--timeout-s", type=float, default=60, help="seconds to wait for an answer (default: 60)")
    attacks = parser.add_argument_group("attacks")
    attacks.add_argument("--grpc", metavar="HOST:PORT", help="the address of gRPC (default: that of --url)")
    attacks.add_argument("--heavy", action="store_true", help="also send up to 1 GiB, and hold up to 1,000 connections")
    attacks.add_argument("--pid", type=int, help="the server's first process (default: the one that listens at --url)")
    attacks.add_argument(
        "--max-growth-mib", type=int, default=256, help="the memory that an attack may take (default: 256)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
