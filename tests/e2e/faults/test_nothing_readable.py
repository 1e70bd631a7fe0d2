"""With a key, no file of the product has a prompt or an answer in clear: not after crashes, restarts or a stop either.

The same content is found in the files of a product without a key, so that the search is known to find it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from service.engine.core.snapshot.snapshot_file import is_readable
from tests.e2e.clients.test_batches import ended
from tests.e2e.stack import GENERATOR, HOLDABLE, ROOT, Stack, child_pids
from tests.waiting import GUARD_S, wait_until

MARK = "Quetzalcoatl"
GREEDY: dict[str, Any] = {"model": "sluice-demo", "temperature": 0}
KINDS = ("input", "metadata", "conversation", "upload", "line", "background")

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture
def _dumps_allowed() -> Iterator[None]:
    """Let child processes leave core dumps as far as the system allows it."""
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (limits[1], limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, limits)


def mark(kind: str) -> str:
    """Return the word that content of one kind has, and nothing else."""
    return f"{MARK}{kind}"


def contents(folder: Path, pid: int) -> Iterator[bytes]:
    """Yield the content of each file below a folder, and of the deleted files that a process and its children hold."""
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.read_bytes()
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        with contextlib.suppress(OSError):
            target = str(link.readlink())
            if target.endswith("(deleted)") and not target.startswith("/memfd:") and link.is_file():
                yield link.read_bytes()
    for child in child_pids(pid):
        yield from contents(folder / "none", child)


def found(stack: Stack, folder: Path, texts: list[str]) -> set[str]:
    """Return those of the texts that are in a file."""
    return {text for content in contents(folder, stack.process.pid) for text in texts if text.encode() in content}


def store_everything(client: Any) -> list[str]:
    """Store content of each kind; return pieces of the answers."""
    conversation = client.conversations.create(
        items=[{"type": "message", "role": "user", "content": mark("conversation")}]
    )
    first = client.responses.create(
        **GREEDY, store=True, input=f"What is {mark('input')}?", metadata={"a": mark("metadata")}, max_output_tokens=40,
        conversation=conversation.id,
    )  # fmt: skip
    body = GREEDY | {"messages": [{"role": "user", "content": f"Who is {mark('line')}?"}], "max_tokens": 40}
    line = {"custom_id": mark("line"), "method": "POST", "url": "/v1/chat/completions", "body": body}
    content = (json.dumps(line) + "\n").encode()
    file = client.files.create(file=(f"{mark('upload')}.jsonl", content), purpose="batch")
    unused = f"{mark('upload')} ".encode() * 100_000  # too large for a buffer
    client.files.create(file=("unused.jsonl", unused), purpose="batch")
    batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    batch = ended(client, batch)
    (result,) = client.files.content(batch.output_file_id).read().splitlines()
    answer = json.loads(result)["response"]["body"]["choices"][0]["message"]["content"]
    return [text.strip()[:12] for text in (first.output_text, answer)]


def crash(stack: Stack, pid: int) -> None:
    """End a process of the service like a failed assertion does; return when the product answers again."""
    service = stack.children()["service"]
    os.kill(pid, signal.SIGABRT)
    if pid == service:
        wait_until(lambda: stack.children().get("service", service) != service)
    wait_until(lambda: httpx.get(f"{stack.url}/v1/models", timeout=GUARD_S).status_code == 200)


@pytest.mark.usefixtures("_dumps_allowed")
@pytest.mark.parametrize("is_encrypted_store", [False, True])
def test_files_have_no_prompts_and_answers(*, is_encrypted_store: bool, tmp_path: Path) -> None:
    state, folder = tmp_path / "all" / "state", tmp_path / "all"
    (folder / "tmp").mkdir(parents=True)
    key = tmp_path / "key"
    key.write_bytes(base64.b64encode(os.urandom(32)))
    environment = HOLDABLE | {
        "TMPDIR": str(folder / "tmp"),
        "HOME": str(folder),
        "SLUICE_GATEWAY_RESUME_TIMEOUT_S": str(GUARD_S),
        "SLUICE_SERVICE_STORED_RESPONSES__LEASE_S": "1",
        "SLUICE_SERVICE_ENGINE__CACHE_FOLDER": str(folder / "cache"),
    }
    if is_encrypted_store:
        environment["SLUICE_SERVICE_STORED_RESPONSES__ENCRYPTION_KEY_FILE"] = str(key)
    dumps = set(ROOT.glob("core*"))
    texts = [mark(kind) for kind in KINDS]
    everything: set[str] = set()
    for _ in range(2):
        stack = Stack(GENERATOR, "--store-responses", state_folder=state, environment=environment)
        try:
            stack.wait_for("sluice is ready.")
            with openai.OpenAI(base_url=f"{stack.url}/v1", api_key="unused", timeout=GUARD_S) as client:
                texts += store_everything(client)
                request = GREEDY | {"input": f"Tell me about {mark('background')}.", "max_output_tokens": 300}
                for victim in ("engine", "service"):
                    running = client.responses.create(**request, background=True)
                    pid = stack.workers()[0] if victim == "engine" else stack.children()["service"]
                    everything |= found(stack, folder, texts)
                    crash(stack, pid)
                    everything |= found(stack, folder, texts)
                    wait_until(lambda: client.responses.retrieve(running.id).status == "completed")  # noqa: B023
        finally:
            assert stack.stop() == 0, stack.output
        everything |= {
            text for path in folder.rglob("*") if path.is_file() for text in texts if text.encode() in path.read_bytes()
        }
        assert not any(text in stack.output for text in texts)
    snapshots = list((folder / "cache").iterdir())
    assert [is_readable(path) for path in snapshots] == [not is_encrypted_store]
    if is_encrypted_store:
        assert everything == set()
        assert set(ROOT.glob("core*")) == dumps
    else:
        assert everything == set(texts)
        for path in set(ROOT.glob("core*")) - dumps:
            path.unlink()
