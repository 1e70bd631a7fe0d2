"""Prompts far above the context length are rejected or truncated without being tokenized completely."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

LONG = "Hello there! " * 1_150_000  # 15 MB
MOST_GROWTH_MB = 400  # four such texts in transit, as Python strings and messages, without tokenizer output


def memory_mb(stack: Stack) -> float:
    """Return the peak resident memory of the service."""
    port = stack.ports["service"]
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().split(b"\0")
            if b"service" in command and str(port).encode() in command:
                line = next(each for each in (folder / "status").read_text().splitlines() if each.startswith("VmHWM"))
                return int(line.split()[1]) / 1024
        except OSError:
            continue
    raise AssertionError("no service")


def chat(stack: Stack, text: str, **fields: Any) -> httpx.Response:
    body = {"model": "sluice-demo", "max_tokens": 4, "messages": [{"role": "user", "content": text}], **fields}
    return httpx.post(f"{stack.url}/v1/chat/completions", json=body, timeout=GUARD_S)


def test_prompts_of_15_mb_are_rejected_before_tokenization(stack: Stack) -> None:
    """Short prompts are served at the same time, and the service's memory does not grow."""
    assert chat(stack, "Hello there!").is_success
    before = memory_mb(stack)
    with ThreadPoolExecutor(4) as pool:
        long = [pool.submit(chat, stack, LONG) for _ in range(8)]
        while not all(each.done() for each in long):
            assert chat(stack, "Hello there!").is_success
    for each in long:
        assert each.result().status_code == 400
        message = each.result().json()["error"]["message"]
        assert message == f"messages: has {len(LONG)} characters in all, with tools and calls; the limit is 4194304"
    assert memory_mb(stack) - before < MOST_GROWTH_MB
