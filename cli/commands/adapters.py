"""`sluice adapters`: LoRA adapters of served models, for administrators."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from cli.calls.change import Urls, as_plain, change_all, no_options_before
from cli.calls.options import DEFAULT, AsJson, CaFile, Key, Url, connected, print_json, print_table
from cli.calls.rpc import ask

APP = typer.Typer(invoke_without_command=True, rich_markup_mode=None)

_SERVICE = "sluice.v1.AdapterService"
Name: TypeAlias = Annotated[str, typer.Argument(metavar="MODEL:NAME", help="The model's name and the adapter's.")]


@APP.callback()
def adapters(
    context: typer.Context,
    model: Annotated[str, typer.Option("--model", "-m", help="Those of this model alone.")] = "",
    as_json: AsJson = False,
    url: Url = DEFAULT,
    key: Key = "",
    ca_file: CaFile = "",
) -> None:
    """List adapters, or change which are served. Takes a key with the scope admin."""
    from sluice.v1 import adapter_pb2  # noqa: PLC0415  gRPC's words are loaded when they are used

    if context.invoked_subcommand is not None:
        no_options_before(context)
        return
    request = adapter_pb2.ListAdaptersRequest(model=model)
    with connected(url, key, ca_file):
        answer = ask(url, key, ca_file, f"{_SERVICE}/ListAdapters", request, adapter_pb2.ListAdaptersResponse)
        if as_json:
            print_json([as_plain(each) for each in answer.adapters])
            return
        rows = [(each.served.name, str(each.rank), f"{each.num_parameters:,}", each.path) for each in answer.adapters]
        print_table([("NAME", "RANK", "PARAMETERS", "FOLDER"), *rows])


@APP.command()
def load(
    name: Name,
    path: Annotated[str, typer.Argument(metavar="PATH", help="Its folder below the service's adapters_root.")],
    as_json: AsJson = False,
    url: Urls = [DEFAULT],
    key: Key = "",
    ca_file: CaFile = "",
) -> None:
    """Load an adapter, as PEFT saves it, and serve it from now on."""
    from sluice.v1 import adapter_pb2  # noqa: PLC0415  as above

    model, own = _parts(name)
    request = adapter_pb2.LoadAdapterRequest(model=model, name=own, path=path)

    def change(server: str) -> dict[str, Any]:
        answer = ask(server, key, ca_file, f"{_SERVICE}/LoadAdapter", request, adapter_pb2.LoadAdapterResponse)
        return as_plain(answer.adapter)

    change_all(url, change, lambda adapter: f"{name} is served: rank {adapter['rank']}", as_json=as_json)


@APP.command()
def unload(name: Name, as_json: AsJson = False, url: Urls = [DEFAULT], key: Key = "", ca_file: CaFile = "") -> None:
    """Serve an adapter no more. Ends when running requests have ended and its memory is free."""
    from sluice.v1 import adapter_pb2  # noqa: PLC0415  as above

    model, own = _parts(name)
    request = adapter_pb2.UnloadAdapterRequest(model=model, name=own)

    def change(server: str) -> dict[str, Any]:
        ask(server, key, ca_file, f"{_SERVICE}/UnloadAdapter", request, adapter_pb2.UnloadAdapterResponse)
        return {"model": model, "name": own}

    change_all(url, change, lambda _: f"{name} is unloaded", as_json=as_json)


def _parts(name: str) -> tuple[str, str]:
    """The model's name, which may have colons, and the adapter's, which has none."""
    model, colon, own = name.rpartition(":")
    if not (colon and model and own):
        raise typer.BadParameter(f"{name!r} must be MODEL:NAME")
    return model, own
