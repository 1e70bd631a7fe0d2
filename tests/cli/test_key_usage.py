"""`sluice keys usage`: counts of several services are added, and errors name the option."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner

from cli.app import APP

PAGE = """\
# TYPE sluice_quota_tokens_total counter
sluice_quota_tokens_total{gen_ai_request_model="m",gen_ai_token_type="input",sluice_key="a"} 1000.0
sluice_quota_tokens_total{gen_ai_request_model="m",gen_ai_token_type="output",sluice_key="a"} 7.0
sluice_quota_tokens_total{gen_ai_request_model="n",gen_ai_token_type="input",sluice_key="b"} 3.0
# TYPE sluice_quota_refusals_total counter
sluice_quota_refusals_total{gen_ai_request_model="m",sluice_key="a",sluice_limit="max_n"} 2.0
"""


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(PAGE.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    """The URL of a metrics page."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        yield f"http://127.0.0.1:{server.server_port}/metrics"
        server.shutdown()


def test_counts_of_several_services_are_added(url: str) -> None:
    """Two pages double each number; a row is one key's use of one model."""
    done = CliRunner().invoke(APP, ["keys", "usage", "--metrics", url, "--metrics", url])
    heads, *rows = done.stdout.splitlines()
    assert heads.split() == ["KEY", "MODEL", "INPUT", "TOKENS", "OUTPUT", "TOKENS", "REJECTED", "REQUESTS"]
    assert [row.split() for row in rows] == [["a", "m", "2,000", "14", "4"], ["b", "n", "6", "0", "0"]]


def test_unreachable_metrics_page_is_reported_in_one_line() -> None:
    """The error names the option and the URL."""
    done = CliRunner().invoke(APP, ["keys", "usage", "--metrics", "http://127.0.0.1:1/metrics"])
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "--metrics http://127.0.0.1:1/metrics: " in done.stderr
