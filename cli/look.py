"""`sluice models`, `sluice endpoints`, `sluice status`: what a server has, and how it fares."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

import httpx
import typer
from prometheus_client.parser import text_string_to_metric_families

from cli.options import DEFAULT, AsJson, CaFile, Key, Url, connected, print_json, print_table, say
from cli.server import Server, ServerError

_LOAD = {  # metric of the service: its name in words
    "sluice_engine_sequences_running": "running",
    "sluice_engine_queue_depth": "waiting",
    "sluice_engine_kv_blocks_used": "blocks used",
    "sluice_engine_kv_blocks": "blocks",
}
_MODEL_LABEL = "gen_ai_request_model"


def models(as_json: AsJson = False, url: Url = DEFAULT, key: Key = "", ca_file: CaFile = "") -> None:
    """List the models that this caller may use, first those that generate."""
    with connected(url, key, ca_file) as server:
        if as_json:
            print_json(server.get("/v1/models")["data"])
        else:
            say("\n".join(server.models()))


def endpoints(as_json: AsJson = False, url: Url = DEFAULT, key: Key = "", ca_file: CaFile = "") -> None:
    """List the endpoints with the models behind them."""
    with connected(url, key, ca_file) as server:
        found = server.get("/api/2.0/serving-endpoints").get("endpoints", [])
        if as_json:
            print_json(found)
            return
        rows = [("NAME", "TASK", "MODELS")]
        for endpoint in found:
            entities = endpoint.get("config", {}).get("served_entities", [])
            shown = ", ".join(entity.get("entity_name", entity.get("name", "")) for entity in entities)
            rows.append((endpoint["name"], endpoint.get("task", ""), shown))
        print_table(rows)


def status(
    as_json: AsJson = False,
    url: Url = DEFAULT,
    key: Key = "",
    ca_file: CaFile = "",
    metrics: Annotated[str, typer.Option(help="The service's own metrics, from which the load is read.")] = (
        "http://127.0.0.1:9464/metrics"
    ),
) -> None:
    """Say whether a server is ready, what it is, and how much it has to do. Exit code 1 if it isn't ready."""
    with connected(url, key, ca_file) as server:
        told = _told(server, metrics)
        if as_json:
            print_json(told)
        else:
            _show(told)
        if not told["ready"]:
            raise typer.Exit(1)


def _told(server: Server, metrics: str) -> dict[str, Any]:
    is_ready = server.status("/readyz") == httpx.codes.OK
    told: dict[str, Any] = {"url": server.url, "ready": is_ready, "version": None, "models": None, "load": None}
    with suppress(ServerError, KeyError, TypeError):  # another's server, or operators' pages are elsewhere
        told["version"] = server.get("/openapi.json")["info"]["version"]
    try:
        told["models"] = server.models()
    except ServerError as error:
        told["problem"] = str(error)
    with suppress(httpx.HTTPError, httpx.InvalidURL, ValueError):  # it is not on this machine, or asks for a key
        told["load"] = _load(httpx.get(metrics, timeout=3).raise_for_status().text)
    return told


def _load(page: str) -> dict[str, dict[str, int]]:
    """By model: what `_LOAD` names."""
    load: dict[str, dict[str, int]] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if (words := _LOAD.get(sample.name)) is not None:
                load.setdefault(sample.labels.get(_MODEL_LABEL, ""), {})[words] = int(sample.value)
    return load


def _show(told: dict[str, Any]) -> None:
    version = f", version {told['version']}" if told["version"] else ""
    say(f"{told['url']} is {'ready' if told['ready'] else 'not ready'}{version}")
    if told["models"] is None:
        say(f"models: {told['problem']}")
    elif not told["load"]:
        say(f"models: {', '.join(told['models'])}")
    if told["load"]:
        rows = [("MODEL", "RUNNING", "WAITING", "CACHE IN USE")]
        for model, load in told["load"].items():
            blocks = load.get("blocks", 0)
            used = f"{100 * load.get('blocks used', 0) / blocks:.0f} %" if blocks else "-"
            rows.append((model, str(load.get("running", 0)), str(load.get("waiting", 0)), used))
        print_table(rows)
