"""Requests to one server, sent from a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from bench.serving.servers import ROOT, Server
from cli.bench.prompts import Prompts

LOAD = [sys.executable, "-m", "bench.serving.load"]
REFUSALS = ("HTTP 429", "HTTP 503")


class FailedRequestError(Exception):
    """A server has answered a request with an error."""


class Load:
    """Sends requests to a server and returns its answers. The same seed generates the same prompts."""

    def __init__(self, server: Server, seed: int) -> None:
        self.server = server
        self.seed = seed
        self._prompts = Prompts(seed)
        num_words = 20
        answer = self.send([self.request(self.words(num_words), 8)])[0]
        server.note_answer()
        self._num_around: int = answer["prompt_tokens"] - num_words  # of the chat template, by this server's count

    def words(self, num: int) -> str:
        """Return random words, each preceded by a space."""
        return self._prompts.words(num)

    def prompt(self, num_tokens: int) -> str:
        """Return a message content whose chat prompt has `num_tokens` tokens."""
        return self.words(num_tokens - self._num_around)

    def request(self, content: str, tokens: int, at: float = 0.0) -> dict[str, Any]:
        """Return a greedy chat that ends by its length, to be sent `at` seconds after the start."""
        command = self.server.command
        body = command.fields | {
            "model": command.model, "stream": True, "max_tokens": tokens, "temperature": 0,
            "stream_options": {"include_usage": True}, "messages": [{"role": "user", "content": content}],
        }  # fmt: skip
        return {"at": at, "body": body}

    def send(self, requests: list[dict[str, Any]], *, may_refuse: bool = False) -> list[dict[str, Any]]:
        """Send the requests; return the outcome of each. With `may_refuse`, overload is no error.

        Raise FailedRequestError for the first error.
        """
        job = json.dumps({"port": self.server.command.port, "requests": requests})
        done = subprocess.run(LOAD, input=job, capture_output=True, text=True, check=False, cwd=ROOT)
        if done.returncode:
            sys.exit(done.stderr)
        answers: list[dict[str, Any]] = json.loads(done.stdout)
        for answer in answers:
            if "error" in answer and not (may_refuse and answer["error"].startswith(REFUSALS)):
                raise FailedRequestError(answer["error"])
        return answers
