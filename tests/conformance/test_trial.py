"""Wrong servers fail the claims that they break, and are told why; no answer, whatever it is, ends the kit."""

from __future__ import annotations

import copy
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from conformance.__main__ import main
from conformance.dialects import DIALECTS
from conformance.server import Event, events_of
from conformance.trial import findings
from tests.conformance.parrots import Events, Spoil, answering, parrot

EVENTS = {"content-type": "text/event-stream"}
WRONG = {
    "empty objects": httpx.Response(200, json={}),
    "a list": httpx.Response(200, json=[1, "a", None]),
    "lists of numbers": httpx.Response(200, json={"choices": [5], "content": [5], "data": [5], "endpoints": [5]}),
    "a page": httpx.Response(404, html="<p>Not here.</p>"),
    "a failure": httpx.Response(500, json={"error": 5}),
    "an empty stream": httpx.Response(200, text="", headers=EVENTS),
    "a stream of objects": httpx.Response(200, text="data: {}\n\ndata: [DONE]\n\n", headers=EVENTS),
    "a stream of numbers": httpx.Response(200, text="data: 5\n\ndata: 5\n\ndata: [DONE]\n\n", headers=EVENTS),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", [name for name in WRONG if "stream of" not in name])
def test_what_is_no_answer_passes_nothing(dialect: str, name: str) -> None:
    """One wrong answer to everything passes nothing, and each failure says what was seen."""
    found = findings(answering(dialect, lambda _: WRONG[name]))
    assert len(found) > 20
    assert not [finding.id for finding in found if finding.result == "passed"]
    assert all(finding.seen for finding in found)
    assert any(finding.result == "failed" for finding in found)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", [name for name in WRONG if "stream of" in name])
def test_wrong_streams_are_no_answers(dialect: str, name: str) -> None:
    """Such a server passes what a stream of any kind promises, at most."""
    found = findings(answering(dialect, lambda _: WRONG[name]))
    assert {finding.id for finding in found if finding.result == "passed"} <= {
        "stream.form",
        "stream.default",
        "errors.harmless",
    }


def test_no_connection_passes_nothing() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("nobody listens", request=request)

    found = findings(answering("openai", handler))
    assert {finding.result for finding in found} == {"failed"}
    assert "nobody listens" in found[0].seen


def failed(dialect: str, spoil: Spoil = lambda events: events) -> dict[str, str]:
    """What was seen of the claims that a parrot fails, by their ids."""
    return {each.id: each.seen for each in findings(parrot(dialect, spoil)) if each.result == "failed"}


def test_parrot_fails_what_it_ignores() -> None:
    """A chat in the right form that heeds no parameter passes forms only; each failure says what is wrong."""
    seen = failed("openai")
    errors = {name for name in seen if name.startswith("errors.")}
    assert len(errors) > 10
    assert all("status 200, not 400" in seen[name] for name in errors - {"errors.model", "errors.form"})
    assert seen["errors.form"] == "no bad body was refused"
    assert {name: seen[name] for name in set(seen) - errors} == {
        "answer.max_tokens": "5 tokens where 2 were allowed",
        "answer.stop": "'One, two, three.' with the stop ', t', 'One, two, three.' without",
        "answer.n": "indexes [0]",
        "answer.system": "prompt_tokens [10, 10]",
        "answer.logprobs": seen["answer.logprobs"],
        "answer.top_logprobs": seen["answer.top_logprobs"],
        "stream.usage": seen["stream.usage"],
        "format.json_object": "the answer is 'One, two, three.'",
        "format.json_schema": "this is no JSON: 'One, two, three.'",
        "tools.required": seen["tools.required"],
        "tools.named": seen["tools.named"],
        "tools.one": seen["tools.one"],
        "tools.stream": seen["tools.stream"],
    }
    assert seen["answer.logprobs"].startswith("choices.0.logprobs.content is not there: {")


def put(path: str, value: Any, *, at: int = 1) -> Spoil:
    """Give one event of a stream another value."""

    def spoil(events: Events) -> Events:
        events = copy.deepcopy(events)
        *names, last = path.split(".")
        found = events[at][1]
        for name in names:
            found = found[int(name) if name.isdecimal() else name]
        found[last] = value
        return events

    return spoil


def again(at: int) -> Spoil:
    """Say one event twice."""
    return lambda events: [*events[:at], events[at], *events[at:]]


def without(at: int) -> Spoil:
    """Leave one event out."""
    return lambda events: [*events[:at], *events[at + 1 :]]


@pytest.mark.parametrize(
    ("dialect", "spoil", "claim"),
    [
        ("openai", without(5), "stream.form"),
        ("openai", again(5), "stream.form"),
        ("openai", put("id", "c2"), "stream.chunks"),
        ("openai", put("object", "chat.completion"), "stream.chunks"),
        ("openai", put("created", 2), "stream.chunks"),
        ("openai", without(0), "stream.role"),
        ("openai", again(4), "stream.finish"),
        ("openai", without(4), "stream.finish"),
        ("openai", put("choices.0.finish_reason", "stop"), "stream.finish"),
        ("openai", again(1), "stream.same"),
        ("anthropic", without(0), "stream.order"),
        ("anthropic", without(1), "stream.order"),
        ("anthropic", without(5), "stream.order"),
        ("anthropic", without(7), "stream.order"),
        ("anthropic", lambda events: [("", data) for _, data in events], "stream.order"),
        ("anthropic", put("message.content", [{}], at=0), "stream.start"),
        ("anthropic", put("message.stop_reason", "end_turn", at=0), "stream.start"),
        ("anthropic", put("delta.stop_reason", None, at=6), "stream.delta"),
        ("anthropic", put("usage.output_tokens", 0, at=6), "stream.delta"),
        ("anthropic", again(2), "stream.same"),
        ("mindie", put("id", "b"), "stream.id"),
        ("mindie", put("model_name", "other"), "stream.shape"),
        ("mindie", put("finish_reason", "length"), "stream.finish"),
        ("mindie", without(2), "stream.finish"),
        ("mindie", put("details.generated_tokens", 9), "stream.details"),
        ("mindie", lambda events: [*events, ("", "[DONE]")], "stream.shape"),
        ("mindie", again(0), "whole.same"),
    ],
)
def test_each_fault_of_a_stream_is_found(dialect: str, spoil: Spoil, claim: str) -> None:
    """The claim holds of the parrot as it is, and not of the spoiled one."""
    assert claim not in failed(dialect)
    assert claim in failed(dialect, spoil)


def test_events_are_read_as_the_standard_has_them() -> None:
    """Comments and ids are left out, lines of data are joined, and a blank after the colon is none of the data."""
    text = ": hello\n\nid: 5\ndata: a\ndata:b\n\r\nevent: x\r\ndata:  c\r\n\r\n"
    assert events_of(text) == [Event("", "a\nb"), Event("x", " c")]


@pytest.fixture
def wrong_url() -> Iterator[str]:
    """A server that answers every call with an empty object."""

    class Wrong(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.do_GET()

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the library's name
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Wrong) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_command_tells_failures(wrong_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1; the terminal, the JSON and the Markdown have every claim, and what was seen."""
    files = [f"--json={tmp_path / 'r.json'}", f"--markdown={tmp_path / 'r.md'}"]
    assert main(["--url", wrong_url, "--dialect", "openai", "--model", "m", *files]) == 1
    told = json.loads((tmp_path / "r.json").read_text())
    assert (told["url"], told["dialect"], told["model"]) == (wrong_url, "openai", "m")
    assert told["counts"]["passed"] == 0
    assert told["counts"]["failed"] + told["counts"]["not applicable"] == len(told["findings"])
    assert set(told["findings"][0]) == {"id", "claim", "reference", "result", "seen"}
    printed, page = capsys.readouterr().out, (tmp_path / "r.md").read_text()
    rows = [row for row in page.splitlines() if row.startswith("| `")]
    assert len(rows) == len(told["findings"])
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {6}
    for finding in told["findings"]:
        assert finding["claim"] in printed
        assert f"| `{finding['id']}` |" in page
    assert f"{told['counts']['failed']} failed" in printed
    assert "seen: choices is not there: {}" in printed


def test_command_tries_what_it_is_asked_for(wrong_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Claims by their ids; one that can't be tried is no success, and an id that isn't there a mistake."""
    asked = ["--url", wrong_url, "--dialect", "openai", "--model", "m", "--only"]
    assert main([*asked, "errors.key"]) == 1
    assert re.search(r"^all +0 +0 +1$", capsys.readouterr().out, re.MULTILINE)
    with pytest.raises(SystemExit):
        main([*asked, "answer.shapes"])
    assert "answer.shapes" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["openai"], ["mindie"], ["azure"]])
def test_command_needs_a_model(wrong_url: str, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and a word about it, where the server names none."""
    assert main(["--url", wrong_url, "--dialect", *arguments]) == 2
    assert "--model" in capsys.readouterr().err


def test_command_needs_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 where nobody listens and no model is named."""
    assert main(["--url", "http://127.0.0.1:1", "--dialect", "openai"]) == 2
    assert "127.0.0.1" in capsys.readouterr().err
