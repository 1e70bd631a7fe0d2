"""`sluice models`: list the models of a server, and load, unload, sleep or wake them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli.calls.change import Urls, as_plain, change_all, reject_options_before_subcommand
from cli.calls.operation import load as load_on
from cli.calls.options import DEFAULT, AsJson, CaFile, Key, Url, connected, print_json, print_text
from cli.calls.rpc import call

APP = typer.Typer(invoke_without_command=True, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The model's name.")]


@APP.callback()
def models(
    context: typer.Context, as_json: AsJson = False, url: Url = DEFAULT, key: Key = "", ca_file: CaFile = ""
) -> None:
    """List models, or load, unload, sleep or wake them. Those that generate are first."""
    if context.invoked_subcommand is not None:
        reject_options_before_subcommand(context)
        return
    with connected(url, key, ca_file) as server:
        if as_json:
            print_json(server.get("/v1/models")["data"])
        else:
            print_text("\n".join(map(_line, server.get("/v1/models")["data"])))


@APP.command()
def load(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The model's name in requests.")],
    path: Annotated[str, typer.Argument(metavar="PATH", help="The model's folder below the service's models_root.")],
    version: Annotated[str, typer.Option(help="Its version; default: 1.")] = "",
    dtype: Annotated[str, typer.Option(help="auto, bfloat16 or float32; default: the service's.")] = "",
    quantization: Annotated[str, typer.Option(help="int8 or int4; default: the service's.")] = "",
    backend: Annotated[str, typer.Option(help="As the setting engine.backend; default: the service's.")] = "",
    device: Annotated[str, typer.Option(help="As the setting device; default: the service's.")] = "",
    max_model_len: Annotated[
        int | None, typer.Option(min=2, max=2**31 - 1, help="Maximum tokens of prompt and answer together.")
    ] = None,
    cache_share: Annotated[
        float | None, typer.Option(help="Its share of free memory for caches; default: 0.5.")
    ] = None,
    as_json: AsJson = False,
    url: Urls = [DEFAULT],
    key: Key = "",
    ca_file: CaFile = "",
) -> None:
    """Load a model and serve it. Requires a key with the scope admin, and may take minutes. Ctrl-C cancels it."""
    from sluice.v1 import model_pb2  # noqa: PLC0415  imported on use, for a fast start

    request = model_pb2.LoadModelRequest(
        name=name, path=path, version=version, dtype=dtype, quantization=quantization, backend=backend, device=device,
        max_model_len=max_model_len, cache_share=cache_share,
    )  # fmt: skip

    def change(server: str) -> dict[str, Any]:
        answer = load_on(server, key, ca_file, "LoadModel", request, model_pb2.LoadModelResponse)
        if answer.HasField("operation"):
            by_name = model_pb2.GetModelRequest(model=name)
            method = "sluice.v1.ModelService/GetModel"
            answer = call(server, key, ca_file, method, by_name, model_pb2.GetModelResponse)
        return as_plain(answer.model)

    def describe(model: dict[str, Any]) -> str:
        return f"{model['name']} is served: {model['architecture']}, {model['dtype']}, {model['maxModelLen']} tokens"

    change_all(url, change, describe, as_json=as_json)


@APP.command()
def unload(name: Name, as_json: AsJson = False, url: Urls = [DEFAULT], key: Key = "", ca_file: CaFile = "") -> None:
    """Stop serving a model and its adapters. Return when running requests have ended and its memory is free."""
    _change("Unload", name, "is unloaded", as_json, url, key, ca_file)


@APP.command()
def sleep(name: Name, as_json: AsJson = False, url: Urls = [DEFAULT], key: Key = "", ca_file: CaFile = "") -> None:
    """Free a model's memory but keep its name; its requests are rejected until it is woken."""
    _change("Sleep", name, "sleeps", as_json, url, key, ca_file)


@APP.command()
def wake(name: Name, as_json: AsJson = False, url: Urls = [DEFAULT], key: Key = "", ca_file: CaFile = "") -> None:
    """Load a sleeping model again. Ctrl-C cancels it."""
    _change("Wake", name, "is awake", as_json, url, key, ca_file)


def _line(model: dict[str, Any]) -> str:
    """Return a model's name, with its state unless it is in memory."""
    state = model.get("state", "loaded")
    return model["id"] if state == "loaded" else f"{model['id']}  ({state})"


def _change(verb: str, name: str, outcome: str, as_json: bool, urls: list[str], key: str, ca_file: str) -> None:  # noqa: FBT001  the options of the commands
    """Load, unload, put to sleep or wake a model on every server."""
    from sluice.v1 import model_pb2  # noqa: PLC0415  imported on use, for a fast start

    request = getattr(model_pb2, f"{verb}ModelRequest")(model=name)
    answer = getattr(model_pb2, f"{verb}ModelResponse")

    def change(server: str) -> dict[str, Any]:
        if verb == "Wake":
            load_on(server, key, ca_file, "WakeModel", request, answer)
        else:
            call(server, key, ca_file, f"sluice.v1.ModelService/{verb}Model", request, answer)
        return {"name": name}

    change_all(urls, change, lambda _: f"{name} {outcome}", as_json=as_json)
