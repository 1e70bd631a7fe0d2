"""`sluice models`, `endpoints`, `complete`, `embed` and `--version` against the whole product."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from process.distribution import installed_version
from tests.command import sluice
from tests.e2e.stack import Stack


def test_models_and_endpoints_are_listed(stack: Stack) -> None:
    """Both are listed as text for people and as the server's own JSON."""
    assert sluice("models", url=stack.url).stdout.splitlines()[:2] == ["sluice-demo", "all-minilm-l6-v2"]
    assert json.loads(sluice("models", "--json", url=stack.url).stdout)[0]["id"] == "sluice-demo"
    heads, *rows = sluice("endpoints", url=stack.url).stdout.splitlines()
    assert heads.split() == ["NAME", "TASK", "MODELS"]
    assert ["sluice-demo", "llm/v1/chat", "sluice-demo"] in [row.split() for row in rows]
    assert "sluice-demo" in {each["name"] for each in json.loads(sluice("endpoints", "--json", url=stack.url).stdout)}


def test_complete_and_embed_accept_arguments_and_pipes(stack: Stack) -> None:
    """Texts are arguments or piped in, and the embedding model is found by its task."""
    done = sluice("complete", "Once", "--max-tokens", "4", "--temperature", "0", url=stack.url)
    assert (done.returncode, done.stderr) == (0, "")
    piped = sluice("complete", "--max-tokens", "4", "--temperature", "0", text="Once", url=stack.url)
    assert done.stdout == piped.stdout
    first, second = sluice("embed", text="one\ntwo\n", url=stack.url).stdout.splitlines()
    assert len(first.split()) == len(second.split()) == 384
    answer = json.loads(sluice("embed", "one", "--json", url=stack.url).stdout)
    assert answer["data"][0]["embedding"] == pytest.approx([float(number) for number in first.split()], abs=1e-4)


@pytest.mark.slow
def test_version_equals_the_distributions() -> None:
    """--version prints one line with the distribution's version."""
    done = subprocess.run([sys.executable, "-m", "cli", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{installed_version()}\n"


@pytest.mark.slow
def test_null_fields_of_other_servers_are_ignored() -> None:
    """Null fields in a chunk, as some servers send them, count as absent."""
    chunks = [{"choices": None}, {"choices": [{"delta": None}]}, {"choices": [{"delta": {"content": "Hi"}}]}]

    class Other(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.end_headers()
            for chunk in chunks:
                self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.serve_forever, args=(0.01,)).start()
        done = sluice("chat", "Hello", "--model", "m", url=f"http://127.0.0.1:{other.server_port}")
        other.shutdown()
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hi\n", "")


@pytest.mark.slow
def test_models_that_are_not_in_memory_are_listed_with_their_state() -> None:
    """Servers that report no state have their models in memory."""
    states = {"a": "loaded", "b": "unloaded", "c": "asleep"}
    models = [{"id": "d"}, *({"id": name, "state": state} for name, state in states.items())]

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"object": "list", "data": models}).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever).start()
        done = sluice("models", url=f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
    assert (done.stdout, done.stderr) == ("d\na\nb  (unloaded)\nc  (asleep)\n", "")
