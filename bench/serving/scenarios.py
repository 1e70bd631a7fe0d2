"""What is asked of a server, and what is told of its answers."""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.serving.prompts import words
from bench.serving.servers import Server

Numbers = dict[str, float]
LOAD = Path(__file__).with_name("load.py")
LEAST_S = 2.0  # of one measurement: short waves are repeated


class Load:
    """Requests to one server, from a process of its own."""

    def __init__(self, server: Server, seed: int) -> None:
        self._server = server
        self._draw = random.Random(seed)
        num_words = 20
        answer = self.send([self.request(words(self._draw, num_words), 8)])[0]
        self._num_around: int = answer["prompt_tokens"] - num_words  # of the chat template, as this server counts

    def prompt(self, num_tokens: int) -> str:
        """A content whose chat has that many tokens."""
        return words(self._draw, num_tokens - self._num_around)

    def request(self, content: str, tokens: int, at: float = 0.0) -> dict[str, Any]:
        """A greedy chat that ends by its length, to be sent so many seconds after the start."""
        command = self._server.command
        body = command.fields | {
            "model": command.model, "stream": True, "max_tokens": tokens, "temperature": 0,
            "stream_options": {"include_usage": True}, "messages": [{"role": "user", "content": content}],
        }  # fmt: skip
        return {"at": at, "body": body}

    def send(self, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What came of each of them. Exits if one failed."""
        job = json.dumps({"port": self._server.command.port, "requests": requests})
        done = subprocess.run([sys.executable, str(LOAD)], input=job, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr)
        answers: list[dict[str, Any]] = json.loads(done.stdout)
        for answer in answers:
            if "error" in answer:
                sys.exit(answer["error"])
        return answers


def at_once(load: Load, prompt_tokens: int, streams: int, tokens: int) -> Numbers:
    """Chats that arrive at the same moment, in waves after a short one that warms; medians over the waves."""
    load.send([load.request(load.prompt(32), 8) for _ in range(streams)])
    waves: list[Numbers] = []
    taken = 0.0
    while taken < LEAST_S:
        answers = load.send([load.request(load.prompt(prompt_tokens), tokens) for _ in range(streams)])
        waves.append(of_wave(answers))
        taken += max(answer["received"][-1] for answer in answers)
    return {name: statistics.median(wave[name] for wave in waves) for name in waves[0]}


def of_wave(answers: list[dict[str, Any]]) -> Numbers:
    """Tokens a second from the first request to the last token; times in seconds, medians over streams and gaps."""
    began = min(answer["sent"] for answer in answers)
    ended = max(answer["received"][-1] for answer in answers)
    gaps = [after - before for answer in answers for before, after in pairwise(answer["received"])]
    firsts = [answer["received"][0] - answer["sent"] for answer in answers]
    return {
        "tokens_per_s": sum(answer["tokens"] for answer in answers) / (ended - began),
        "first_token_s": statistics.median(firsts),
        "last_first_token_s": max(firsts),
        "gap_s": statistics.median(gaps),
        "gap_p95_s": statistics.quantiles(gaps, n=20)[-1],
        "prompt_tokens": statistics.median(answer["prompt_tokens"] for answer in answers),
        "tokens": statistics.median(answer["tokens"] for answer in answers),
        "events": statistics.median(len(answer["received"]) for answer in answers),
    }
