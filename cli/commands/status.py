"""`sluice status`: the status of one or several servers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Final

import httpx
import typer

from cli.calls.options import DEFAULT, AsJson, CaFile, Key, connected, fail, print_json, print_table, print_text
from cli.calls.server import Server, ServerError

_HEADS: Final = ("SERVER", "STATE", "VERSION", "MODEL", "RUNNING", "WAITING", "CACHE IN USE", "TOKENS/S")
_LOAD: Final = "/status.json"


@dataclass(slots=True)
class Load:
    """The load of one model. `cache` is the fraction of cache blocks in use, or None for a model without blocks."""

    running: int
    waiting: int
    cache: float | None
    tokens_per_s: float | None  # generated tokens; None if the server was restarted between two readings


@dataclass(slots=True)
class State:
    """The status of one server. `models` and `load`, by model, are None if unavailable; `problem` has the reason."""

    url: str
    ready: bool = False
    version: str | None = None
    models: list[str] | None = None
    load: dict[str, Load] | None = None
    problem: str | None = field(default=None)


def status(
    as_json: AsJson = False,
    url: Annotated[
        list[str], typer.Option(envvar="SLUICE_URL", help="A server's base URL; repeatable.", show_envvar=True)
    ] = [DEFAULT],
    key: Key = "",
    ca_file: CaFile = "",
    over: Annotated[float, typer.Option(min=0.1, help="Seconds over which tokens per second are measured.")] = 1.0,
) -> None:
    """Report the readiness, version, models and load of servers. Exits with code 1 if a server is not ready."""
    with ThreadPoolExecutor(len(url)) as pool:
        states = list(pool.map(lambda each: _state(each, key, ca_file, over), url))
    if len(states) == 1 and states[0].problem and not states[0].ready and states[0].models is None:
        fail(states[0].problem)
    with connected(url[0], key, ca_file):  # handles a closed output
        if as_json:
            reports = [asdict(state) for state in states]
            print_json(reports[0] if len(reports) == 1 else reports)
        else:
            _show(states)
    if not all(state.ready for state in states):
        raise typer.Exit(1)


def _state(url: str, key: str, ca_file: str, over_s: float) -> State:
    """Return the state of one server; a connection error becomes its `problem`."""
    state = State(url)
    try:
        server = Server(url, key or None, ca_file or None)
    except ServerError as error:
        state.problem = str(error)
        return state
    try:
        state.url = server.url
        state.ready = server.status("/readyz") == httpx.codes.OK
        with suppress(ServerError, KeyError, TypeError):  # not sluice, or /openapi.json is on admin_port only
            state.version = str(server.get("/openapi.json")["info"]["version"])
        state.models = server.models()
        with suppress(KeyError, TypeError, AttributeError):  # /status.json of another server
            state.load = _load(server, over_s)
    except ServerError as error:
        state.problem = str(error)
    finally:
        server.close()
    return state


def _load(server: Server, over_s: float) -> dict[str, Load]:
    """Return the load by model, measured over `over_s` seconds.

    Raise ServerError, or KeyError, TypeError or AttributeError for unexpected JSON.
    """
    before = server.get(_LOAD)
    time.sleep(over_s)
    after = server.get(_LOAD)
    took_s = after["time_s"] - before["time_s"]
    generated = {each["model"]: each["generated_tokens"] for each in before["service"]["models"]}
    found = {}
    for each in after["service"]["models"]:
        num = each["generated_tokens"] - generated.get(each["model"], 0)
        speed = num / took_s if num >= 0 and took_s > 0 else None
        cache = each["used_blocks"] / each["blocks"] if each["blocks"] else None
        found[each["model"]] = Load(each["running"], each["waiting"], cache, speed)
    return found


def _show(states: Sequence[State]) -> None:
    """Print a table with a row per server and model."""
    rows: list[tuple[str, ...]] = [_HEADS]
    for state in states:
        columns = (state.url, "ready" if state.ready else "not ready", state.version or "-")
        loads = state.load or dict.fromkeys(state.models or ["-"])
        for index, (model, load) in enumerate(loads.items()):
            rows.append((*(columns if index == 0 else ("", "", "")), model, *_load_columns(load)))
    print_table(rows)
    for state in states:
        if state.problem:
            print_text(f"{state.url}: {state.problem}")


def _load_columns(load: Any) -> tuple[str, str, str, str]:
    """Return a model's running and waiting requests, cache use and tokens per second."""
    if load is None:
        return ("-", "-", "-", "-")
    cache = "-" if load.cache is None else f"{100 * load.cache:.0f} %"
    speed = "-" if load.tokens_per_s is None else f"{load.tokens_per_s:,.0f}"
    return (str(load.running), str(load.waiting), cache, speed)
