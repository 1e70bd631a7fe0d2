"""`sluice serve`, `check`, `convert`, `config`, `envoy`, `ray`: programs in this one's place.

Signals and exit codes are so theirs. They need what this command does not load: settings, models' code.
"""

from __future__ import annotations

import os
import sys

import typer

_CONTEXT = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def serve(context: typer.Context) -> None:
    """Run service, gateway and Envoy on models of one's own or the bundled one; --help lists the settings."""
    _become("runner", context.args)


def check(context: typer.Context) -> None:
    """Say whether a model would load, by what, and what memory it takes, without loading it."""
    _become("service.commands.check_model", context.args)


def convert(context: typer.Context) -> None:
    """Write a model's GGUF file as a folder that can be served."""
    _become("service.commands.convert_gguf", context.args)


def config(context: typer.Context) -> None:
    """Print the service's settings, or with --gateway the gateway's, and where each came from; it takes their flags."""
    words = [word for word in context.args if word != "--gateway"]
    _become("service.commands.show_settings" if words == context.args else "gateway.show_settings", words)


def envoy(context: typer.Context) -> None:
    """Make Envoy's configuration before several gateways and services, of a file that says where they are."""
    _become("runner.proxy.production", context.args)


def ray(context: typer.Context) -> None:
    """Keep replicas of the service on a Ray cluster, as many as its load needs, and tell Envoy where they are."""
    _become("cluster", context.args)


def add_to(app: typer.Typer) -> None:
    """Make them commands of `app`."""
    for command in (serve, check, convert, config, envoy, ray):
        app.command(context_settings=_CONTEXT)(command)


def _become(module: str, words: list[str]) -> None:
    os.execv(sys.executable, [sys.executable, "-m", module, *words])  # noqa: S606 the same Python
