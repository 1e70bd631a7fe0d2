"""The command `sluice` and its subcommands, one file each."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from cli.commands import programs
from process.distribution import installed_version

# Module and attribute of each command or command group that runs in this process; `programs` has those that replace it.
_COMMANDS: Final[Mapping[str, str]] = {
    "chat": "cli.commands.chat:chat",
    "complete": "cli.commands.generate:complete",
    "embed": "cli.commands.generate:embed",
    "endpoints": "cli.commands.endpoints:endpoints",
    "replay": "cli.commands.replay:replay",
    "run": "cli.commands.run:run",
    "status": "cli.commands.status:status",
    "usage": "cli.commands.usage:usage",
    "bench": "cli.bench.command:bench",
    "models": "cli.commands.models:APP",
    "adapters": "cli.commands.adapters:APP",
    "keys": "cli.commands.keys:APP",
    "certs": "cli.commands.certs:APP",
    "receipts": "cli.commands.receipts:APP",
}


class _Commands(TyperGroup):
    """A group that imports a command when it is called, since some commands import large packages."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.commands: dict[str, Any] = {**self.commands, **dict.fromkeys(_COMMANDS)}  # None: not imported yet

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of this name, or None if there is none."""
        if cmd_name in self.commands and self.commands[cmd_name] is None:
            self.commands[cmd_name] = _imported(cmd_name)
        return super().get_command(ctx, cmd_name)


def _imported(name: str) -> Any:
    """Import a command's module and return the click command."""
    module, _, attribute = _COMMANDS[name].partition(":")
    found = getattr(import_module(module), attribute)
    if isinstance(found, typer.Typer):
        command: Any = get_group(found)
    else:
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        app.command()(found)
        command = get_command(app)
    command.name = name
    return command


APP = typer.Typer(
    name="sluice",
    cls=_Commands,
    help="Serve models, and use model servers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
programs.add_to(APP)


def _show_version(is_requested: bool) -> None:  # noqa: FBT001  typer's callback signature
    if is_requested:
        typer.echo(installed_version())
        raise typer.Exit


@APP.callback()
def _sluice(
    _: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Serve models, and use model servers."""
