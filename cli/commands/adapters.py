"""`sluice adapters`: list, load and unload LoRA adapters of served models."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from cli.calls.change import Urls, as_plain, change_all, reject_options_before_subcommand
from cli.calls.options import DEFAULT, AsJson, CaFile, Key, Url, connected, print_json, print_table
from cli.calls.rpc import call

APP = typer.Typer(invoke_without_command=True, rich_markup_mode=None)

_SERVICE = "sluice.v1.AdapterService"
Name: TypeAlias = Annotated[str, typer.Argument(metavar="MODEL:NAME", help="The names of the model and the adapter.")]


@APP.callback()
def adapters(
    context: typer.Context,
    model: Annotated[str, typer.Option("--model", "-m", help="List the adapters of this model only.")] = "",
    as_json: AsJson = False,
    url: Url = DEFAULT,
    key: Key = "",
    ca_file: CaFile = "",
) -> None:
    """List adapters, or load and unload them. Requires a key with the scope admin."""
    from sluice.v1 import adapter_pb2  # noqa: PLC0415  imported on use, for a fast start

    if context.invoked_subcommand is not None:
        reject_options_before_subcommand(context)
        return
    request = adapter_pb2.ListAdaptersRequest(model=model)
    with connected(url, key, ca_file):
        answer = call(url, key, ca_file, f"{_SERVICE}/ListAdapters", request, adapter_pb2.ListAdaptersResponse)
        if as_json:
            print_json([as_plain(each) for each in answer.adapters])
            return
        rows = [(each.served.name, str(each.rank), f"{each.num_parameters:,}", each.path) for each in answer.adapters]
        print_table([("NAME", "RANK", "PARAMETERS", "FOLDER"), *rows])


@APP.command()
def load(
    name: Name,
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="The adapter's folder below the service's adapters_root.")
    ],
    as_json: AsJson = False,
    url: Urls = [DEFAULT],
    key: Key = "",
    ca_file: CaFile = "",
) -> None:
    """Load an adapter in PEFT's format and serve it."""
    from sluice.v1 import adapter_pb2  # noqa: PLC0415  imported on use, for a fast start

    model, adapter_name = _parts(name)
    request = adapter_pb2.LoadAdapterRequest(model=model, name=adapter_name, path=path)

    def change(server: str) -> dict[str, Any]:
        answer = call(server, key, ca_file, f"{_SERVICE}/LoadAdapter", request, adapter_pb2.LoadAdapterResponse)
        return as_plain(answer.adapter)

    change_all(url, change, lambda adapter: f"{name} is served: rank {adapter['rank']}", as_json=as_json)


@APP.command()
def unload(name: Name, as_json: AsJson = False, url: Urls = [DEFAULT], key: Key = "", ca_file: CaFile = "") -> None:
    """Stop serving an adapter. Return when its running requests have ended and its memory is free."""
    from sluice.v1 import adapter_pb2  # noqa: PLC0415  imported on use, for a fast start

    model, adapter_name = _parts(name)
    request = adapter_pb2.UnloadAdapterRequest(model=model, name=adapter_name)

    def change(server: str) -> dict[str, Any]:
        call(server, key, ca_file, f"{_SERVICE}/UnloadAdapter", request, adapter_pb2.UnloadAdapterResponse)
        return {"model": model, "name": adapter_name}

    change_all(url, change, lambda _: f"{name} is unloaded", as_json=as_json)


def _parts(name: str) -> tuple[str, str]:
    """Split MODEL:NAME. The model's name may have colons, the adapter's has none."""
    model, colon, adapter_name = name.rpartition(":")
    if not (colon and model and adapter_name):
        raise typer.BadParameter(f"{name!r} must be MODEL:NAME")
    return model, adapter_name
