"""A model on two ranks in the whole product: its answers, the death of a rank, and the stop."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import httpx
import pytest

from service.settings.bundled_models import DEMO_FOLDER
from tests.e2e.stack import Stack, child_pids, is_running
from tests.waiting import GUARD_S, wait_until

ALONE, SHARED = "alone", "shared"


@pytest.fixture(scope="module")
def two_ranks() -> Iterator[Stack]:
    """The bundled model twice: on one rank, and on two."""
    models = [
        {"name": ALONE, "path": str(DEMO_FOLDER), "engine": {"backend": "torch", "num_blocks": 256}},
        {"name": SHARED, "path": str(DEMO_FOLDER), "engine": {"tensor_parallel": 2, "num_blocks": 256}},
    ]
    stack = Stack(
        environment={"SLUICE_SERVICE_MODELS": json.dumps(models), "SLUICE_SERVICE_DTYPE": "float32"},
    )
    try:
        stack.wait_for("sluice is ready.")
        yield stack
    finally:
        stack.stop()


def chat(stack: Stack, model: str, text: str) -> str:
    """Return the greedy answer."""
    body = {"model": model, "messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 60}
    answer = httpx.post(f"{stack.url}/v1/chat/completions", json=body, timeout=GUARD_S)
    assert answer.status_code == 200, answer.text
    content: str = answer.json()["choices"][0]["message"]["content"]
    return content


def ranks(stack: Stack) -> dict[int, list[int]]:
    """Return the other ranks' processes by the process of each engine."""
    return {pid: [each for each in child_pids(pid) if is_running(each)] for pid in stack.workers()}


def test_two_ranks_give_the_texts_of_one(two_ranks: Stack) -> None:
    """Greedy texts are equal for prompts of several lengths."""
    for text in ("Tell me a story about a river.", "What is 3 + 4?", "Name three colours. " * 40):
        assert chat(two_ranks, SHARED, text) == chat(two_ranks, ALONE, text)


def test_dead_rank_restarts_the_engine(two_ranks: Stack) -> None:
    """The log names the rank in one error; all ranks are restarted and answer as before."""
    before = chat(two_ranks, SHARED, "Tell me a story.")
    (leader, (rank,)) = next((pid, others) for pid, others in ranks(two_ranks).items() if others)
    os.kill(rank, signal.SIGKILL)
    two_ranks.wait_for("was restarted")
    assert chat(two_ranks, SHARED, "Tell me a story.") == before
    ((new, (other,)),) = ((pid, others) for pid, others in ranks(two_ranks).items() if others)
    assert leader != new
    assert rank != other
    assert not is_running(leader)
    assert two_ranks.output.count("the engine has failed") == 1
    assert "rank 1 of 2 of tensor parallelism has ended: ended by SIGKILL" in two_ranks.output


def test_ranks_of_a_dead_leader_exit(two_ranks: Stack) -> None:
    """The engine is restarted with new ranks."""
    (leader, (rank,)) = next((pid, others) for pid, others in ranks(two_ranks).items() if others)
    os.kill(leader, signal.SIGKILL)
    wait_until(lambda: not is_running(rank))
    wait_until(lambda: two_ranks.output.count("was restarted") == 2, lambda: two_ranks.output)
    assert chat(two_ranks, SHARED, "Tell me a story.") == chat(two_ranks, ALONE, "Tell me a story.")


def test_stop_ends_all_ranks(two_ranks: Stack) -> None:
    """All processes of this stack end, with exit code 0. It is the stack's last test."""
    pids = [pid for leader, others in ranks(two_ranks).items() for pid in (leader, *others)]
    assert len(pids) == 3
    assert two_ranks.stop() == 0
    wait_until(lambda: not any(map(is_running, pids)))
