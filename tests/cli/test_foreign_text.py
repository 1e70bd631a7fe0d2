"""What a model or a server says gives the terminal no orders: it has no control characters but line ends and tabs."""

from __future__ import annotations

import json
import threading
import unicodedata
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.cli.terminal import Terminal
from tests.cli.test_chat import sluice

pytestmark = pytest.mark.slow

NAME = "a\x1b[2Jmodel"
PIECES = ["\x1b]0;owned\x07Hello", "\x1b", "[31m\x9b2J,\tworld\r\n", "a\x85line\u2028or\u2029two ", "\x7f\x08bye"]
SHOWN = "]0;ownedHello[31m2J,\tworld\naline\u2028or\u2029two bye"
EVENTS = [{"choices": [{"delta": {"content": piece}, "text": piece}]} for piece in PIECES]


class Server(BaseHTTPRequestHandler):
    """A server of models that means harm."""

    def do_GET(self) -> None:
        self._answer(200, json.dumps({"data": [{"id": NAME}]}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if body["model"] != NAME:
            self._answer(400, json.dumps({"error": {"message": "no\x1b[2J\x9b such"}}))
            return
        # As most servers write JSON: all but what must be escaped stands there as it is.
        self._answer(200, "".join(f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in EVENTS))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing."""

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())


@pytest.fixture
def url() -> Iterator[str]:
    """Where such a server is."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def test_an_answer_is_its_text(url: str) -> None:
    """Of a chat and of a completion; escape sequences that come in pieces, too."""
    for command in ("chat", "complete"):
        done = sluice(command, "hello", url=url)
        assert (done.returncode, done.stdout) == (0, f"{SHOWN}\n")


def test_json_says_all_and_orders_nothing(url: str) -> None:
    """Control characters are escaped, and still those that were sent."""
    for command in ("chat", "complete"):
        lines = sluice(command, "hello", "--json", url=url).stdout
        assert [json.loads(line) for line in lines.strip().split("\n")] == EVENTS
        assert all(character == "\n" or unicodedata.category(character) != "Cc" for character in lines)


def test_names_and_errors_order_nothing(url: str) -> None:
    """As a list, in a table, and in the line that ends a command."""
    assert sluice("models", url=url).stdout == "a[2Jmodel\n"
    assert "a[2Jmodel" in sluice("status", url=url).stdout
    assert sluice("chat", "hello", "--model", "other", url=url).stderr == "sluice: no[2J such\n"


def test_a_conversation_orders_nothing_either(url: str) -> None:
    """Name and answer, with nothing but the command's own dim line and what the terminal's editing writes."""
    with Terminal("chat", env={"SLUICE_URL": url, "TERM": "dumb"}) as terminal:
        greeting = terminal.until("Ctrl-D exits\n")
        assert greeting.startswith("a[2Jmodel at ")
        terminal.until("> ")
        terminal.type("hello\n")
        assert "\x1b]" not in terminal.until("bye")
        assert "\x1b[31m" not in terminal.until("> ")
        terminal.type("\x04")
        assert terminal.end() == 0
