"""`sluice bench` against the whole product, and against servers whose answers can be computed by hand."""

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
from tests.cli.test_chat import sluice
from tests.e2e.stack import Stack

SMALL = ["--requests", "6", "--concurrency", "3", "--prompt-tokens", "60", "--max-tokens", "9", "--warm-up", "1"]
PAUSE_S = 0.03
TOKENS = "sluice_engine_generated_tokens_total"


@pytest.mark.parametrize("way", DialectName)
def test_each_way_is_measured(stack: Stack, way: DialectName) -> None:
    """As many requests as asked for, of that length, with their times; what a dialect doesn't tell is not made up."""
    told = json.loads(sluice("bench", "--dialect", way, *SMALL, "--json", url=stack.door).stdout)
    assert (told["requests"], told["answered"], told["errors"]) == (6, 6, {})
    assert told["prompt_tokens"] == (None if way == DialectName.MINDIE else 6 * 60)
    assert told["are_tokens_told"]
    assert 6 <= told["tokens"] <= 6 * 9
    assert way == DialectName.MINDIE or told["tokens"] == 6 * 9
    assert 0 < told["time_to_first_token_s"]["p50"] <= told["request_latency_s"]["max"] <= told["duration_s"]


class Slow(BaseHTTPRequestHandler):
    """Three tokens in two events with a pause between; every third request is refused, every fifth breaks off."""

    num_asked = 0
    most_open = now_open = 0
    lock = threading.Lock()

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"data": [{"id": "slow"}]}).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.lock:
            Slow.num_asked += body["max_tokens"] > 1  # the first two ask for one token
            number = Slow.num_asked
            Slow.now_open += 1
            Slow.most_open = max(Slow.most_open, Slow.now_open)
        if body["max_tokens"] > 1 and number % 3 == 0:
            self.send_response(429)
            self.end_headers()
            self.wfile.write(b'{"error": {"message": "too \\u001b[2Jmuch"}}')
        else:
            self._answer(len(body["messages"][0]["content"].split()), breaks=number > 0 and number % 5 == 0)
        with self.lock:
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
        """Nothing."""


@pytest.fixture
def slow() -> Iterator[str]:
    """Where it is; it has been asked nothing."""
    Slow.num_asked = Slow.most_open = Slow.now_open = 0
    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def test_times_are_those_of_whole_answers() -> None:
    """By hand: the first text, the mean of the other tokens, each gap, the whole; and speeds of the whole time."""
    whole = Record(10.0, [10.5, 11.5], 12.0, prompt_tokens=30, tokens=5)
    others = [Record(11.0, [12.0], 13.0, tokens=1), Record(10.0, [10.1], 20.0, error="broken stream", detail="why")]
    told = summary([whole, *others])
    assert told["time_to_first_token_s"] == pytest.approx(
        {"mean": 0.75, "p50": 0.75, "p95": 0.975, "p99": 0.995, "max": 1.0}
    )
    assert told["time_per_output_token_s"]["p50"] == pytest.approx(0.25)
    assert told["inter_event_s"]["p99"] == pytest.approx(1.0)
    assert told["request_latency_s"]["max"] == pytest.approx(2.0)
    assert (told["duration_s"], told["tokens_per_s"], told["requests_per_s"]) == pytest.approx((10, 0.6, 0.2))
    assert told["errors"] == {"broken stream": {"count": 1, "example": "why"}}


@pytest.mark.slow
def test_lengths_and_failures_are_counted(slow: str, tmp_path: Path) -> None:
    """Lengths are as the server counts, failures are told by kind."""
    plot = tmp_path / "times.svg"
    words = ["--requests", "20", "--concurrency", "4", "--warm-up", "0", "--prompt-tokens", "47", "--max-tokens", "3"]
    told = json.loads(sluice("bench", *words, "--json", "--plot", str(plot), url=slow).stdout)
    errors = {kind: found["count"] for kind, found in told["errors"].items()}
    assert errors == {"HTTP 429": 6, "broken stream": 3}  # of 20: 3, 6, … 18; 5, 10 and 20
    assert told["errors"]["HTTP 429"]["example"] == "too \x1b[2Jmuch"
    assert told["answered"] == 11
    assert (told["prompt_tokens"], told["tokens"]) == (11 * 47, 11 * 3)
    assert Slow.most_open == 4
    picture = ET.fromstring(plot.read_text())  # noqa: S314  our own
    assert [each.text for each in picture.iter("{http://www.w3.org/2000/svg}title")] == ["slow, openai-chat"]
    assert sum("p95" in (each.text or "") for each in picture.iter("{http://www.w3.org/2000/svg}text")) == 4


@pytest.mark.slow
def test_a_table_and_a_plot_are_for_people(slow: str) -> None:
    """With no order to the terminal in what a server said."""
    done = sluice("bench", "--requests", "3", "--warm-up", "0", "--plot", "-", url=slow)
    assert done.returncode == 0
    assert "2 answered, 1 failed" in done.stdout
    assert "1 by HTTP 429: too [2Jmuch" in done.stdout
    assert "time to first token, ms\n" in done.stdout
    assert "█" in done.stdout


@pytest.mark.slow
def test_arrivals_do_not_wait_for_answers(slow: str) -> None:
    """At a rate that one at a time can't have, more are open at once than --concurrency says."""
    told = json.loads(sluice("bench", "--rate", "200", "--seconds", "0.3", "-c", "1", "--json", url=slow).stdout)
    assert told["concurrency"] is None
    assert told["requests"] > 20
    assert Slow.most_open > 2


def test_nothing_answered_is_a_failure(stack: Stack) -> None:
    """The table says why, and so does the exit code."""
    done = sluice("bench", "--prompt-tokens", "4000", "--requests", "2", url=stack.door)
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
def test_what_is_wrong_is_said_in_one_line(stack: Stack, words: list[str], text: str) -> None:
    """Before any load."""
    done = sluice("bench", *words, url=stack.door)
    assert (done.returncode, done.stdout) == (1, "")
    assert text in done.stderr
    assert done.stderr.startswith("sluice: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["--model", "m"], ["--model", "m", "--dialect", "grpc"]])
def test_a_server_that_isnt_there_is_named(words: list[str]) -> None:
    """Whether its models are asked for first, or not."""
    done = sluice("bench", *words, url="http://127.0.0.1:1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("sluice: no server at http://127.0.0.1:1")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("way", ["openai-chat", "grpc"])
def test_ctrl_c_shows_what_was_measured(stack: Stack, way: str) -> None:
    """The server is left alone, and the exit code says it."""
    words = ["--requests", "9999", "--max-tokens", "20", "--concurrency", "2", "--dialect", way]
    before = stack.metric(TOKENS)
    with Terminal("bench", *words, env={"SLUICE_URL": stack.door, "COLUMNS": "100"}) as terminal:
        terminal.until("━")  # the bar
        # Those of two answers at a time, each of 20 at most: some have been read.
        while stack.metric(TOKENS) < before + 400:
            time.sleep(0.05)
        terminal.type("\x03")
        shown = terminal.until("request latency")
        assert "ended by Ctrl-C" in shown
        assert " 0 failed" in shown
        assert terminal.end() == 130
    stack.until_idle()
