"""The server under test, its dialect, and its answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx

from conformance.claim import (
    Claim,
    InapplicableError,
    at,
    cut,
    hold,
    items,
    parsed,
)

Body = dict[str, Any]


@dataclass(frozen=True)
class Spoiled:
    """A change that makes a valid body invalid: `name` is part of the claim's id, `fault` of its text.

    A field whose new value is None is removed. `where` is the section of the reference that forbids the body.
    """

    name: str
    fault: str
    change: Mapping[str, Any]
    where: str = ""


@dataclass(frozen=True)
class Dialect:
    """The requests and claims of a dialect.

    `path` is the path for generating text, with `{model}` for the model's name. `rejection_statuses` are the allowed
    statuses for an invalid body; `errors` is the section of the reference that specifies errors. `check_error` raises
    BrokenError if an error has another form than `error_form`. `find_model` returns the name of a model. `lost` is
    True if an unknown model must be rejected. `unsaid` are claims that hold for the dialect's servers although the
    reference does not make them. `stream_type` is the media type of streams; others than server-sent events have an
    object per line.
    """

    name: str
    reference: str
    path: str
    good: Body
    streaming: Mapping[str, Any]
    claims: tuple[Claim[Server], ...]
    spoiled: tuple[Spoiled, ...]
    error_form: str
    check_error: Callable[[httpx.Response], None]
    find_model: Callable[[httpx.Client], str]
    key_header: Callable[[str], Mapping[str, str]] = lambda key: {"authorization": f"Bearer {key}"}
    headers: Mapping[str, str] = field(default_factory=dict)
    rejection_statuses: tuple[int, ...] = (400,)
    errors: str = ""
    lost: bool = True
    unsaid: tuple[str, ...] = ()
    stream_type: str = "text/event-stream"


@dataclass(frozen=True)
class Event:
    """One event of a stream: its name, which may be empty, and its data."""

    name: str
    data: str


@dataclass(frozen=True)
class Server:
    """A server and the model under test."""

    client: httpx.Client
    dialect: Dialect
    model: str

    def path(self, model: str | None = None) -> str:
        """Return the path for generating text."""
        return self.dialect.path.replace("{model}", quote(model or self.model, safe=""))

    def body(self, fields: Mapping[str, Any]) -> Body:
        """Return the valid body with these fields added, and without those that are None."""
        named = {} if "{model}" in self.dialect.path else {"model": self.model}
        return {name: value for name, value in (named | self.dialect.good | dict(fields)).items() if value is not None}

    def post(self, path: str, body: Body) -> Any:
        """Return the answer's JSON. Raise BrokenError unless the status is 200."""
        answer = self.client.post(path, json=body)
        hold(answer.status_code == 200, f"status {answer.status_code}: {cut(answer.text)}")
        return parsed(answer.text)

    def get(self, path: str) -> Any:
        """Return the answer's JSON. Raise InapplicableError if the path does not exist."""
        answer = self.client.get(path)
        if answer.status_code in {404, 405, 501}:
            raise InapplicableError(f"GET {path}: status {answer.status_code}")
        hold(answer.status_code == 200, f"status {answer.status_code}: {cut(answer.text)}")
        return parsed(answer.text)

    def ask(self, **fields: Any) -> Any:
        """Return a whole answer to the valid body with these fields added."""
        return self.post(self.path(), self.body(fields))

    def events(self, **fields: Any) -> list[Event]:
        """Return the events of a stream. Raise BrokenError for another content type."""
        answer = self.client.post(self.path(), json=self.body(fields | dict(self.dialect.streaming)))
        hold(answer.status_code == 200, f"status {answer.status_code}: {cut(answer.text)}")
        kind = answer.headers.get("content-type", "")
        hold(kind.startswith(self.dialect.stream_type), f"the content-type is {kind!r}")
        if self.dialect.stream_type != "text/event-stream":
            return [Event("", line) for line in answer.text.splitlines() if line]
        return events_of(answer.text)

    def rejection(self, answer: httpx.Response, statuses: tuple[int, ...]) -> str:
        """Check that an error has one of the statuses and a JSON body, and return the observation."""
        wanted = " or ".join(map(str, statuses))
        hold(answer.status_code in statuses, f"status {answer.status_code}, not {wanted}: {cut(answer.text)}")
        parsed(answer.text)
        return f"{answer.status_code}: {cut(answer.text)}"


def events_of(text: str) -> list[Event]:
    """Return the events in a body of server-sent events, without comments and without events that have no data."""
    found = []
    for block in text.replace("\r\n", "\n").split("\n\n"):
        pairs = [line.partition(":")[::2] for line in block.split("\n") if line and not line.startswith(":")]
        data = [value.removeprefix(" ") for name, value in pairs if name == "data"]
        if data:
            name = "".join(value.strip() for name, value in pairs if name == "event")
            found.append(Event(name, "\n".join(data)))
    return found


def first_model(client: httpx.Client, path: str, where: str, name: str, task: str = "") -> str:
    """Return the name of the first model listed at a path, preferring the task. Raise BrokenError if there is none."""
    answer = client.get(path)
    hold(answer.status_code == 200, f"GET {path}: status {answer.status_code}")
    models = items(parsed(answer.text), where)
    fitting = [model for model in models if isinstance(model, dict) and model.get("task") == task]
    return str(at((fitting or models)[0], name, str))
