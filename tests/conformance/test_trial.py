"""Wrong servers fail the claims that they break, with the reason; no answer makes the kit crash."""

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
def test_wrong_answers_pass_no_claim(dialect: str, name: str) -> None:
    """A server with one wrong answer to everything passes no claim, and each failure reports the observation."""
    found = findings(answering(dialect, lambda _: WRONG[name]))
    assert len(found) > 20
    assert not [finding.id for finding in found if finding.result == "passed"]
    assert all(finding.seen for finding in found)
    assert any(finding.result == "failed" for finding in found)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", [name for name in WRONG if "stream of" in name])
def test_invalid_streams_pass_only_claims_about_any_stream(dialect: str, name: str) -> None:
    """A server with wrong streams passes only claims that hold of any stream."""
    found = findings(answering(dialect, lambda _: WRONG[name]))
    assert {finding.id for finding in found if finding.result == "passed"} <= {
        "stream.form",
        "stream.default",
        "errors.harmless",
    }


def test_unreachable_server_passes_no_claim() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused", request=request)

    found = findings(answering("openai", handler))
    assert {finding.result for finding in found} == {"failed"}
    assert "connection refused" in found[0].seen


def failed(dialect: str, spoil: Spoil = lambda events: events) -> dict[str, str]:
    """Return the observations of the claims that a parrot fails, by id."""
    return {each.id: each.seen for each in findings(parrot(dialect, spoil)) if each.result == "failed"}


def test_server_that_ignores_parameters_fails_their_claims() -> None:
    """A well-formed chat that ignores all parameters passes claims about forms only; each failure names the fault."""
    seen = failed("openai")
    errors = {name for name in seen if name.startswith("errors.")}
    assert len(errors) > 10
    assert all("status 200, not 400" in seen[name] for name in errors - {"errors.model", "errors.form"})
    assert seen["errors.form"] == "no bad body was rejected"
    assert {name: seen[name] for name in set(seen) - errors} == {
        "answer.max_tokens": "5 tokens, but the limit is 2",
        "answer.stop": "'One, two, three.' with the stop ', t', 'One, two, three.' without",
        "answer.n": "indexes [0]",
        "answer.system": "prompt_tokens [10, 10]",
        "answer.logprobs": seen["answer.logprobs"],
        "answer.top_logprobs": seen["answer.top_logprobs"],
        "stream.usage": seen["stream.usage"],
        "format.json_object": "the answer is 'One, two, three.'",
        "format.json_schema": "this is not JSON: 'One, two, three.'",
        "tools.required": seen["tools.required"],
        "tools.named": seen["tools.named"],
        "tools.one": seen["tools.one"],
        "tools.stream": seen["tools.stream"],
    }
    assert seen["answer.logprobs"].startswith("choices.0.logprobs.content is missing: {")


def put(path: str, value: Any, *, at: int = 1) -> Spoil:
    """Return a change that sets a value in one event of a stream."""

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
    """Return a change that repeats one event."""
    return lambda events: [*events[:at], events[at], *events[at:]]


def without(at: int) -> Spoil:
    """Return a change that removes one event."""
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
        ("responses", without(1), "stream.order"),
        ("responses", put("sequence_number", 7), "stream.order"),
        ("responses", lambda events: [("", data) for _, data in events], "stream.order"),
        ("responses", put("response.status", "completed"), "stream.start"),
        ("responses", put("delta", "Two, ", at=5), "stream.deltas"),
        ("responses", put("item_id", "m2", at=5), "stream.deltas"),
        ("responses", put("part.text", "One", at=8), "stream.deltas"),
        ("responses", put("response.output.0.content.0.text", "One", at=10), "stream.same"),
        ("responses", put("response.text", {"format": {"type": "text"}, "verbosity": None}, at=0), "open.stream"),
        ("responses", put("response.usage", {"input_tokens": 1}, at=10), "open.stream"),
        ("responses", put("response.tools", [{"type": "function", "name": "f"}], at=1), "open.stream"),
        ("responses", put("item.role", None, at=9), "open.stream"),
        ("responses", put("part.annotations", None, at=8), "open.stream"),
        ("responses", put("content_index", None, at=4), "open.stream"),
        ("mindie", put("id", "b"), "stream.id"),
        ("mindie", put("model_name", "other"), "stream.shape"),
        ("mindie", put("finish_reason", "length"), "stream.finish"),
        ("mindie", without(2), "stream.finish"),
        ("mindie", put("details.generated_tokens", 9), "stream.details"),
        ("mindie", lambda events: [*events, ("", "[DONE]")], "stream.shape"),
        ("mindie", again(0), "whole.same"),
        ("ollama", put("model", "other"), "stream.shape"),
        ("ollama", put("message.role", "user"), "stream.shape"),
        ("ollama", without(3), "stream.end"),
        ("ollama", again(3), "stream.end"),
        ("ollama", put("eval_count", 1), "stream.end"),
        ("ollama", put("total_duration", 1, at=3), "stream.end"),
        ("ollama", again(0), "stream.same"),
    ],
)
def test_each_fault_of_a_stream_is_found(dialect: str, spoil: Spoil, claim: str) -> None:
    """The claim holds for the unchanged parrot and fails for the spoiled one."""
    assert claim not in failed(dialect)
    assert claim in failed(dialect, spoil)


def test_events_are_parsed_as_the_standard_specifies() -> None:
    """Comments and ids are skipped, lines of data are joined, and one space after the colon is removed."""
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
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Wrong) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_command_reports_failures(wrong_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 1, and the terminal, the JSON and the Markdown have every claim with its observation."""
    files = [f"--json={tmp_path / 'r.json'}", f"--markdown={tmp_path / 'r.md'}"]
    assert main(["--url", wrong_url, "--dialect", "openai", "--model", "m", *files]) == 1
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["url"], report["dialect"], report["model"]) == (wrong_url, "openai", "m")
    assert report["counts"]["passed"] == 0
    assert report["counts"]["failed"] + report["counts"]["not applicable"] == len(report["findings"])
    assert set(report["findings"][0]) == {"id", "claim", "reference", "result", "seen"}
    printed, page = capsys.readouterr().out, (tmp_path / "r.md").read_text()
    rows = [row for row in page.splitlines() if row.startswith("| `")]
    assert len(rows) == len(report["findings"])
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {6}
    for finding in report["findings"]:
        assert finding["claim"] in printed
        assert f"| `{finding['id']}` |" in page
    assert f"{report['counts']['failed']} failed" in printed
    assert "seen: choices is missing: {}" in printed


def test_command_tests_selected_claims(wrong_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--only` selects claims by id; an inapplicable claim is no success, and an unknown id is a usage error."""
    arguments = ["--url", wrong_url, "--dialect", "openai", "--model", "m", "--only"]
    assert main([*arguments, "errors.key"]) == 1
    assert re.search(r"^all +0 +0 +1$", capsys.readouterr().out, re.MULTILINE)
    with pytest.raises(SystemExit):
        main([*arguments, "answer.shapes"])
    assert "answer.shapes" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["openai"], ["mindie"], ["azure"]])
def test_command_needs_a_model(wrong_url: str, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 2, with a message, if the server lists no models."""
    assert main(["--url", wrong_url, "--dialect", *arguments]) == 2
    assert "--model" in capsys.readouterr().err


def test_command_needs_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 2 if no server listens and no model is named."""
    assert main(["--url", "http://127.0.0.1:1", "--dialect", "openai"]) == 2
    assert "127.0.0.1" in capsys.readouterr().err
