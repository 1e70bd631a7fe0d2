"""Test a server against the reference of its dialect: `python -m conformance --url URL --dialect NAME`.

Prints a line for each claim, then a table of counts. The exit code is 0 if all applicable claims passed, 1 if one
failed or none was applicable, 2 if the server could not be reached.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx

from conformance.claim import BrokenError
from conformance.dialects import DIALECTS
from conformance.report import Report, line
from conformance.server import Server
from conformance.trial import claims_of, findings


def main(arguments: Sequence[str] | None = None) -> int:
    """Test the server, print and write the report, and return the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    dialect = DIALECTS[options.dialect]
    unknown = set(options.only or ()) - {claim.id for claim in claims_of(dialect)}
    if unknown:
        parser.error(f"{dialect.name} has no claims {', '.join(sorted(unknown))}")
    headers = dict(dialect.headers) | (dict(dialect.key_header(options.key)) if options.key else {})
    fresh = httpx.Limits(max_keepalive_connections=0)  # no dialect specifies when idle connections are closed
    with httpx.Client(base_url=options.url, headers=headers, timeout=options.timeout_s, limits=fresh) as client:
        try:
            model = options.model or dialect.find_model(client)
        except (BrokenError, httpx.HTTPError, httpx.InvalidURL) as error:
            print(f"{options.url} did not list its models; name one with --model. {error}", file=sys.stderr)
            return 2
        found = findings(Server(client, dialect, model), lambda finding: print(line(finding), flush=True), options.only)
    report = Report(options.url, dialect.name, model, found)
    print(f"\n{dialect.name}, {model} at {options.url}: {report.summary()}\n\n{report.table()}")
    for path, text in ((options.json, report.json), (options.markdown, report.markdown)):
        if path:
            path.write_text(text(), encoding="utf-8")
    return int(bool(report.counts()["failed"]) or not report.counts()["passed"])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m conformance", description=__doc__)
    parser.add_argument("--url", required=True, help="the server's address, without the dialect's path")
    parser.add_argument("--dialect", required=True, choices=DIALECTS)
    parser.add_argument("--model", help="the model or endpoint to ask (default: the first that the server lists)")
    parser.add_argument("--key", help="the API key, sent in the dialect's header")
    parser.add_argument("--only", nargs="+", metavar="ID", help="ids of the claims to test (default: all)")
    parser.add_argument("--json", type=Path, help="write the report to this file as JSON")
    parser.add_argument("--markdown", type=Path, help="write the report to this file as Markdown")
    parser.add_argument("--timeout-s", type=float, default=60, help="seconds to wait for an answer (default: 60)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
