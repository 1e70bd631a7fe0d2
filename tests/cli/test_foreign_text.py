"""Untrusted text of a model or a server is printed without terminal control characters."""

from __future__ import annotations

import json
import threading
import unicodedata
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.cli.terminal import Terminal
from tests.command import sluice

pytestmark = pytest.mark.slow

NAME = "a\x1b[2Jmodel"
PIECES = ["\x1b]0;owned\x07Hello", "\x1b", "[31m\x9b2J,\tworld\r\n", "a\x85line\u2028or\u2029two ", "\x7f\x08bye"]
SHOWN = "]0;ownedHello[31m2J,\tworld\naline\u2028or\u2029two bye"
EVENTS = [{"choices": [{"delta": {"content": piece}, "text": piece}]} for piece in PIECES]


class Server(BaseHTTPRequestHandler):
    """A malicious server of models."""

    def do_GET(self) -> None:
        self._answer(200, json.dumps({"data": [{"id": NAME}]}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if body["model"] != NAME:
            self._answer(400, json.dumps({"error": {"message": "no\x1b[2J\x9b such"}}))
            return
        # Like most servers, escape only the characters that JSON requires.
        self._answer(200, "".join(f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in EVENTS))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing."""

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())


@pytest.fixture
def url() -> Iterator[str]:
    """Yield the URL of such a server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def test_answers_are_printed_without_control_characters(url: str) -> None:
    """Answers of chats and completions have no control characters, even if sequences arrive in parts."""
    for command in ("chat", "complete"):
        done = sluice(command, "hello", url=url)
        assert (done.returncode, done.stdout) == (0, f"{SHOWN}\n")


def test_json_escapes_control_characters(url: str) -> None:
    """The JSON output preserves control characters as escapes."""
    for command in ("chat", "complete"):
        lines = sluice(command, "hello", "--json", url=url).stdout
        assert [json.loads(line) for line in lines.strip().split("\n")] == EVENTS
        assert all(character == "\n" or unicodedata.category(character) != "Cc" for character in lines)


def test_names_and_errors_have_no_control_characters(url: str) -> None:
    """Lists, tables and error lines have no control characters."""
    assert sluice("models", url=url).stdout == "a[2Jmodel\n"
    assert "a[2Jmodel" in sluice("status", url=url).stdout
    assert sluice("chat", "hello", "--model", "other", url=url).stderr == "sluice: no[2J such\n"


def test_a_conversation_has_no_control_characters(url: str) -> None:
    """Names and answers in a terminal have no escape sequences except the command's own."""
    with Terminal("chat", env={"SLUICE_URL": url, "TERM": "dumb"}) as terminal:
        greeting = terminal.until("Ctrl-D exits\n")
        assert greeting.startswith("a[2Jmodel at ")
        terminal.until("> ")
        terminal.type("hello\n")
        assert "\x1b]" not in terminal.until("bye")
        assert "\x1b[31m" not in terminal.until("> ")
        terminal.type("\x04")
        assert terminal.end() == 0
