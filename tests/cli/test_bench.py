"""`sluice bench` against the whole product, and against servers whose results are known."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from cli.bench.dialects import DialectName
from cli.bench.record import Record
from cli.bench.summary import summary
from tests.cli.terminal import Terminal
from tests.command import sluice
from tests.e2e.stack import Stack
from tests.waiting import GUARD_S, wait_until

SMALL = ["--requests", "6", "--concurrency", "3", "--prompt-tokens", "60", "--max-tokens", "9", "--warm-up", "1"]
PAUSE_S = 0.03
TOKENS = "sluice_engine_generated_tokens_total"


@pytest.mark.parametrize("dialect", DialectName)
def test_each_dialect_is_measured(stack: Stack, dialect: DialectName) -> None:
    """The report has the requested number and length of requests, and no value that the dialect does not report."""
    report = json.loads(sluice("bench", "--dialect", dialect, *SMALL, "--json", url=stack.url).stdout)
    assert (report["requests"], report["answered"], report["errors"]) == (6, 6, {})
    assert report["prompt_tokens"] == (None if dialect == DialectName.MINDIE else 6 * 60)
    assert report["has_token_counts"]
    assert 6 <= report["tokens"] <= 6 * 9
    assert dialect == DialectName.MINDIE or report["tokens"] == 6 * 9
    assert 0 < report["time_to_first_token_s"]["p50"] <= report["request_latency_s"]["max"] <= report["duration_s"]


class Slow(BaseHTTPRequestHandler):
    """A server of three tokens in two events with a pause.

    Every third request is rejected, every fifth stream breaks.
    """

    num_asked = 0
    most_open = now_open = 0
    least_open = 1  # requests that must be open before any is answered
    opened = threading.Condition()

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"data": [{"id": "slow"}]}).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.opened:
            Slow.num_asked += body["max_tokens"] > 1  # the calibration requests have max_tokens of 1
            number = Slow.num_asked
            Slow.now_open += 1
            Slow.most_open = max(Slow.most_open, Slow.now_open)
            self.opened.notify_all()
            if body["max_tokens"] > 1:
                self.opened.wait_for(lambda: Slow.most_open >= Slow.least_open, GUARD_S)
        if body["max_tokens"] > 1 and number % 3 == 0:
            self.send_response(429)
            self.end_headers()
            self.wfile.write(b'{"error": {"message": "too \\u001b[2Jmuch"}}')
        else:
            self._answer(len(body["messages"][0]["content"].split()), breaks=number > 0 and number % 5 == 0)
        with self.opened:
            Slow.now_open -= 1

    def _answer(self, num_words: int, *, breaks: bool) -> None:
        self.send_response(200)
        self.end_headers()
        for text in ("one two", " three"):
            self._event({"choices": [{"delta": {"content": text}}]})
            time.sleep(PAUSE_S)
        if not breaks:
            usage = {"prompt_tokens": 7 + 2 * num_words, "completion_tokens": 3}
            self._event({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": usage})

    def _event(self, event: object) -> None:
        self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing."""


@pytest.fixture
def slow() -> Iterator[str]:
    """Yield the URL of the server, with its counters reset."""
    Slow.num_asked = Slow.most_open = Slow.now_open = 0
    Slow.least_open = 1
    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def test_times_and_speeds_equal_hand_computed_values() -> None:
    """Times of successful records are as calculated by hand, and speeds cover the whole duration."""
    whole = Record(10.0, [10.5, 11.5], 12.0, prompt_tokens=30, tokens=5)
    others = [Record(11.0, [12.0], 13.0, tokens=1), Record(10.0, [10.1], 20.0, error="broken stream", detail="why")]
    report = summary([whole, *others])
    assert report["time_to_first_token_s"] == pytest.approx(
        {"mean": 0.75, "p50": 0.75, "p95": 0.975, "p99": 0.995, "max": 1.0}
    )
    assert report["time_per_output_token_s"]["p50"] == pytest.approx(0.25)
    assert report["inter_event_s"]["p99"] == pytest.approx(1.0)
    assert report["request_latency_s"]["max"] == pytest.approx(2.0)
    assert (report["duration_s"], report["tokens_per_s"], report["requests_per_s"]) == pytest.approx((10, 0.6, 0.2))
    assert report["errors"] == {"broken stream": {"count": 1, "example": "why"}}


@pytest.mark.slow
def test_reported_lengths_and_failures_are_counted(slow: str, tmp_path: Path) -> None:
    """Lengths are those reported by the server, and failures are counted by kind."""
    Slow.least_open = 4
    plot = tmp_path / "times.svg"
    options = ["--requests", "20", "--concurrency", "4", "--warm-up", "0", "--prompt-tokens", "47", "--max-tokens", "3"]
    report = json.loads(sluice("bench", *options, "--json", "--plot", str(plot), url=slow).stdout)
    errors = {kind: found["count"] for kind, found in report["errors"].items()}
    assert errors == {"HTTP 429": 6, "broken stream": 3}  # of 20: 3, 6, … 18; 5, 10 and 20
    assert report["errors"]["HTTP 429"]["example"] == "too \x1b[2Jmuch"
    assert report["answered"] == 11
    assert (report["prompt_tokens"], report["tokens"]) == (11 * 47, 11 * 3)
    assert Slow.most_open == 4
    picture = ET.fromstring(plot.read_text())  # noqa: S314  a trusted file
    assert [each.text for each in picture.iter("{http://www.w3.org/2000/svg}title")] == ["slow, openai-chat"]
    assert sum("p95" in (each.text or "") for each in picture.iter("{http://www.w3.org/2000/svg}text")) == 4


@pytest.mark.slow
def test_table_and_plot_have_no_control_characters(slow: str) -> None:
    """The report for people has no control characters from the server."""
    done = sluice("bench", "--requests", "3", "--warm-up", "0", "--plot", "-", url=slow)
    assert done.returncode == 0
    assert "2 answered, 1 failed" in done.stdout
    assert "1 by HTTP 429: too [2Jmuch" in done.stdout
    assert "time to first token, ms\n" in done.stdout
    assert "█" in done.stdout


@pytest.mark.slow
def test_arrivals_do_not_wait_for_answers(slow: str) -> None:
    """With --rate more requests are open at once than --concurrency allows, and the run ends after --seconds."""
    Slow.least_open = 3
    report = json.loads(
        sluice("bench", "--rate", "200", "-n", "40", "-c", "1", "--warm-up", "0", "--json", url=slow).stdout
    )
    assert report["concurrency"] is None
    assert report["requests"] == 40
    assert Slow.most_open >= 3
    assert sluice("bench", "--rate", "200", "--seconds", "0.3", url=slow).returncode in (0, 1)


def test_bench_without_a_successful_request_fails(stack: Stack) -> None:
    """If no request succeeds, the table has the reason and the exit code is 1."""
    done = sluice("bench", "--prompt-tokens", "4000", "--requests", "2", url=stack.url)
    assert done.returncode == 1
    assert "2 by HTTP 400: messages: the prompt has 4000 tokens;" in done.stdout


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--model", "nobody"], "no model named 'nobody' is served"),
        (["--set", "temperature=9", "--dialect", "grpc"], "temperature: must be greater than or equal to 0"),
        (["--set", "colour=9", "--dialect", "grpc"], "colour"),
        (["--set", "temperature"], "--set 'temperature' is not NAME=VALUE"),
        (["--plot", "times.png"], "--plot times.png: must end with .svg, or be -"),
        (["--plot", "/nowhere/times.svg"], "--plot /nowhere/times.svg: the folder /nowhere does not exist"),
    ],
)
def test_invalid_bench_options_are_rejected_in_one_line(stack: Stack, words: list[str], text: str) -> None:
    """The error is printed before the load starts."""
    done = sluice("bench", *words, url=stack.url)
    assert (done.returncode, done.stdout) == (1, "")
    assert text in done.stderr
    assert done.stderr.startswith("sluice: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["--model", "m"], ["--model", "m", "--dialect", "grpc"]])
def test_error_about_a_missing_server_names_its_url(words: list[str]) -> None:
    """The error names the URL, with and without a request for the models."""
    done = sluice("bench", *words, url="http://127.0.0.1:1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("sluice: no server at http://127.0.0.1:1")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("dialect", ["openai-chat", "grpc"])
def test_ctrl_c_prints_the_report_so_far(stack: Stack, dialect: str) -> None:
    """Ctrl-C prints the report so far, with exit code 130, and no request is left at the server."""
    options = ["--requests", "9999", "--max-tokens", "20", "--concurrency", "2", "--dialect", dialect]
    before = stack.metric(TOKENS)
    with Terminal("bench", *options, env={"SLUICE_URL": stack.url, "COLUMNS": "100"}) as terminal:
        terminal.until("━")  # the progress bar
        wait_until(lambda: stack.metric(TOKENS) >= before + 400)  # at most 20 per request, two at a time
        terminal.type("\x03")
        shown = terminal.until("request latency")
        assert "ended by Ctrl-C" in shown
        assert " 0 failed" in shown
        assert terminal.end() == 130
    stack.until_idle()
