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
    """Serve models with service, gateway and Envoy. --help lists the settings."""
    _exec_module("runner", context.args)


def doctor(context: typer.Context) -> None:
    """Check this machine and the settings of serve, and start nothing."""
    _exec_module("cli.doctor", context.args)


def check(context: typer.Context) -> None:
    """Report whether a model can be loaded, without loading it."""
    _exec_module("service.commands.check_model", context.args)


def pull(context: typer.Context) -> None:
    """Download a model of the hub."""
    _exec_module("service.commands.hub_models", ["pull", *context.args])


def list_models(context: typer.Context) -> None:
    """List the models that were downloaded from the hub."""
    _exec_module("service.commands.hub_models", ["list", *context.args])


def rm(context: typer.Context) -> None:
    """Remove a model that was downloaded from the hub."""
    _exec_module("service.commands.hub_models", ["rm", *context.args])


def convert(context: typer.Context) -> None:
    """Convert a model's GGUF file to a folder that can be served."""
    _exec_module("service.commands.convert_gguf", context.args)


def store(context: typer.Context) -> None:
    """Check, migrate, purge or import stored responses."""
    _exec_module("service.commands.store", context.args)


def config(context: typer.Context) -> None:
    """Print each setting with its source. With --gateway those of the gateway, else of the service."""
    arguments = [argument for argument in context.args if argument != "--gateway"]
    _exec_module(
        "service.commands.show_settings" if arguments == context.args else "gateway.settings.show_settings", arguments
    )


def envoy(context: typer.Context) -> None:
    """Write Envoy's configuration for several gateways and services."""
    _exec_module("runner.proxy.production", context.args)


def ray(context: typer.Context) -> None:
    """Run replicas of the service on a Ray cluster."""
    _exec_module("cluster", context.args)


def add_to(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    for command in (serve, doctor, check, pull, rm, convert, store, config, envoy, ray):
        app.command(context_settings=_CONTEXT)(command)
    app.command("list", context_settings=_CONTEXT)(list_models)


def _exec_module(module: str, arguments: list[str]) -> None:
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])  # noqa: S606 the same Python
