"""A server that is asked: its address, the dialect it is asked in, and what it answers."""

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
    """One way to spoil a good body: `name` goes into the claim's id, `fault` into its words.

    A field whose new value is None is left out. `where` is the place in the reference that rules it out.
    """

    name: str
    fault: str
    change: Mapping[str, Any]
    where: str = ""


@dataclass(frozen=True)
class Dialect:
    """How a dialect's servers are asked.

    `path` is where text is asked for, with `{model}` where its name belongs. `refused` are the statuses that may refuse
    a bad body, `errors` is the place of the reference that has the form of errors. `check_error` breaks the claim if an
    error has another form than `error_form`. `find_model` returns the name of a model to ask. `lost` is whether a model
    that isn't there must be refused. `unsaid` are claims that its servers are known by, though the reference is silent.
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
    refused: tuple[int, ...] = (400,)
    errors: str = ""
    lost: bool = True
    unsaid: tuple[str, ...] = ()


@dataclass(frozen=True)
class Event:
    """One event of a stream: its name, empty without one, and its data's text."""

    name: str
    data: str


@dataclass(frozen=True)
class Server:
    """A server, and the model that is asked."""

    client: httpx.Client
    dialect: Dialect
    model: str

    def path(self, model: str | None = None) -> str:
        """The path where text is asked for."""
        return self.dialect.path.replace("{model}", quote(model or self.model, safe=""))

    def body(self, fields: Mapping[str, Any]) -> Body:
        """The good body with these fields besides, or without those that are None."""
        named = {} if "{model}" in self.dialect.path else {"model": self.model}
        return {name: value for name, value in (named | self.dialect.good | dict(fields)).items() if value is not None}

    def post(self, path: str, body: Body) -> Any:
        """The answer's JSON; BrokenError if its status isn't 200."""
        answer = self.client.post(path, json=body)
        hold(answer.status_code == 200, f"status {answer.status_code}: {cut(answer.text)}")
        return parsed(answer.text)

    def get(self, path: str) -> Any:
        """The answer's JSON; InapplicableError if the path isn't there."""
        answer = self.client.get(path)
        if answer.status_code in {404, 405, 501}:
            raise InapplicableError(f"GET {path}: status {answer.status_code}")
        hold(answer.status_code == 200, f"status {answer.status_code}: {cut(answer.text)}")
        return parsed(answer.text)

    def ask(self, **fields: Any) -> Any:
        """A whole answer to the good body with these fields besides."""
        return self.post(self.path(), self.body(fields))

    def events(self, **fields: Any) -> list[Event]:
        """The events of a stream, after its content type was seen to be right."""
        answer = self.client.post(self.path(), json=self.body(fields | dict(self.dialect.streaming)))
        hold(answer.status_code == 200, f"status {answer.status_code}: {cut(answer.text)}")
        kind = answer.headers.get("content-type", "")
        hold(kind.startswith("text/event-stream"), f"the content-type is {kind!r}")
        return events_of(answer.text)

    def refusal(self, answer: httpx.Response, statuses: tuple[int, ...]) -> str:
        """What was seen of an error that has one of the statuses, and is JSON."""
        wanted = " or ".join(map(str, statuses))
        hold(answer.status_code in statuses, f"status {answer.status_code}, not {wanted}: {cut(answer.text)}")
        parsed(answer.text)
        return f"{answer.status_code}: {cut(answer.text)}"


def events_of(text: str) -> list[Event]:
    """The events of a body of server-sent events; comments and what has no data are left out."""
    found = []
    for block in text.replace("\r\n", "\n").split("\n\n"):
        pairs = [line.partition(":")[::2] for line in block.split("\n") if line and not line.startswith(":")]
        data = [value.removeprefix(" ") for name, value in pairs if name == "data"]
        if data:
            name = "".join(value.strip() for name, value in pairs if name == "event")
            found.append(Event(name, "\n".join(data)))
    return found


def first_model(client: httpx.Client, path: str, place: str, name: str, task: str = "") -> str:
    """The name of the first model in the list at a path, of this task if any says so; BrokenError if there is none."""
    answer = client.get(path)
    hold(answer.status_code == 200, f"GET {path}: status {answer.status_code}")
    models = items(parsed(answer.text), place)
    fitting = [model for model in models if isinstance(model, dict) and model.get("task") == task]
    return str(at((fitting or models)[0], name, str))
