"""A conversation: what it sends, and what stays of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from cli.calls.conversation import Conversation
from cli.calls.prompt_bar import PromptBar
from cli.calls.server import Server, ServerError
from tests.cli.chat.test_prompt_bar import FakeTerminal

SYSTEM = {"role": "system", "content": "Be brief."}


class StrictServer(Server):
    """A server that rejects a field; it keeps the bodies of all requests."""

    def __init__(self, rejected: str) -> None:
        self.bodies: list[Mapping[str, Any]] = []
        self._rejected = rejected

    @contextmanager
    def stream(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> Iterator[Iterator[dict[str, Any]]]:
        self.bodies.append({**body, "messages": [*body["messages"]]})
        if self._rejected in body:
            raise ServerError(f"Unrecognized request argument supplied: {self._rejected}")
        yield iter([{"choices": [{"delta": {"content": "hello"}, "finish_reason": "stop"}]}])


def ask(conversation: Conversation) -> str:
    """Ask a question, and return the answer's text."""
    bar = PromptBar(FakeTerminal())
    return conversation.ask("hi", lambda *_: None, lambda _: None, bar).text


def test_a_server_that_rejects_progress_is_asked_again_without_it() -> None:
    """Progress is requested once only."""
    server = StrictServer("return_progress")
    conversation = Conversation(server, "m")
    assert [ask(conversation), ask(conversation)] == ["hello", "hello"]
    assert ["return_progress" in body for body in server.bodies] == [True, False, False]
    assert [len(body["messages"]) for body in server.bodies] == [1, 1, 3]


def test_other_errors_are_raised_at_once() -> None:
    """The question is removed, so that it can be asked again."""
    server = StrictServer("seed")
    conversation = Conversation(server, "m")
    conversation.set("seed=1")
    with pytest.raises(ServerError, match="seed"):
        ask(conversation)
    assert (len(server.bodies), conversation.messages) == (1, [])


def test_clear_keeps_the_system_prompt() -> None:
    conversation = Conversation(StrictServer(""), "m")
    conversation.set_system("Be brief.")
    ask(conversation)
    conversation.images.append("data:image/png;base64,")
    conversation.clear()
    assert (conversation.messages, conversation.images) == ([SYSTEM], [])
    ask(conversation)
    assert [message["role"] for message in conversation.messages] == ["system", "user", "assistant"]
