"""`sluice serve`: the whole product on this machine, until Ctrl-C."""

from __future__ import annotations

import os
import sys

import typer

_CONTEXT = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def serve(context: typer.Context) -> None:
    """Run service, gateway and Envoy on models of one's own or the bundled one; --help lists the settings."""
    # The runner takes this process's place, so that signals are its own.
    os.execv(sys.executable, [sys.executable, "-m", "runner", *context.args])  # noqa: S606 the same Python


def add_to(app: typer.Typer) -> None:
    """Make it a command of `app`."""
    app.command(context_settings=_CONTEXT)(serve)
