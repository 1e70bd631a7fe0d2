"""`sluice serve`, `doctor`, `check`, `pull`, `list`, `rm`, `convert`, …: commands that become another program.

The process is replaced (exec), so that signals reach the program and its exit code is the command's. The programs
import settings and model code; other commands start fast without them.
"""

from __future__ import annotations

import os
import sys

import typer

_CONTEXT = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def serve(context: typer.Context) -> None:
    """Run service, gateway and Envoy with given models or the bundled ones; --help lists the settings."""
    _exec_module("runner", context.args)


def doctor(context: typer.Context) -> None:
    """Check memory, ports, permissions, certificates, versions and instruction set; takes the settings of serve."""
    _exec_module("cli.doctor", context.args)


def check(context: typer.Context) -> None:
    """Report whether a model can be loaded, with which backend and how much memory, without loading it."""
    _exec_module("service.commands.check_model", context.args)


def pull(context: typer.Context) -> None:
    """Download a model of the hub before it is served, with progress."""
    _exec_module("service.commands.hub_models", ["pull", *context.args])


def list_models(context: typer.Context) -> None:
    """List the models that were downloaded from the hub, with their sizes; `models` lists those of a server."""
    _exec_module("service.commands.hub_models", ["list", *context.args])


def rm(context: typer.Context) -> None:
    """Remove a model that was downloaded from the hub."""
    _exec_module("service.commands.hub_models", ["rm", *context.args])


def convert(context: typer.Context) -> None:
    """Convert a model's GGUF file to a folder that can be served."""
    _exec_module("service.commands.convert_gguf", context.args)


def store(context: typer.Context) -> None:
    """Check, migrate, purge or import the file or database of stored responses and conversations."""
    _exec_module("service.commands.store", context.args)


def config(context: typer.Context) -> None:
    """Print the service's settings, or with --gateway the gateway's, and the source of each; takes the same flags."""
    arguments = [argument for argument in context.args if argument != "--gateway"]
    _exec_module(
        "service.commands.show_settings" if arguments == context.args else "gateway.settings.show_settings", arguments
    )


def envoy(context: typer.Context) -> None:
    """Write Envoy's configuration for several gateways and services, from a file with their addresses."""
    _exec_module("runner.proxy.production", context.args)


def ray(context: typer.Context) -> None:
    """Run and scale replicas of the service on a Ray cluster, and publish their addresses to Envoy."""
    _exec_module("cluster", context.args)


def add_to(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    for command in (serve, doctor, check, pull, rm, convert, store, config, envoy, ray):
        app.command(context_settings=_CONTEXT)(command)
    app.command("list", context_settings=_CONTEXT)(list_models)


def _exec_module(module: str, arguments: list[str]) -> None:
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])  # noqa: S606 the same Python
