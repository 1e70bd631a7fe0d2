"""`sluice keys`: create, list, edit, rotate, revoke and enable API keys in the service's keys file.

A key is printed once, when it is created; the file stores only its hash. Errors exit with code 1 and one line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, TypeAlias, TypeVar

import typer

from cli.calls.options import AsJson, fail, print_json, print_table, print_text
from cli.commands.key_options import LIMIT_NAMES, changed_limits, instant
from cli.commands.key_usage import usage
from service.auth.keys.key import digest, new_id, new_key
from service.auth.keys.key_entry import KeyEntry, KeysError, to_entry, to_plain
from service.auth.keys.key_location import change_keys, keys_at
from service.generation.caller import Scope

Result = TypeVar("Result")

APP = typer.Typer(help="API keys of the service.", no_args_is_help=True, rich_markup_mode=None)
APP.command()(usage)

_DEFAULT_SCOPES = [Scope.GENERATE, Scope.EMBED, Scope.TOKENIZE, Scope.ENDPOINTS_READ]

File: TypeAlias = Annotated[
    str,
    typer.Option(
        "--file",
        "-f",
        envvar=["SLUICE_KEYS_FILE", "SLUICE_SERVICE_AUTH__KEYS_FILE"],
        help="The keys file, the service's auth.keys_file; or its store.redis_url, with auth.keys_in_store.",
    ),
]
KeyId: TypeAlias = Annotated[str, typer.Argument(metavar="ID", help="The key's id.")]


@APP.command()
def create(
    file: File,
    name: Annotated[str, typer.Option(help="A description of the key's owner.")] = "",
    key_id: Annotated[str, typer.Option("--id", help="Lower-case letters, digits and -; default: random.")] = "",
    scope: Annotated[list[Scope], typer.Option(help="An operation that the key allows; repeatable.")] = _DEFAULT_SCOPES,
    model: Annotated[list[str], typer.Option(help="Pattern of model names, such as 'llama-*'.")] = ["*"],
    endpoint: Annotated[list[str], typer.Option(help="Pattern of endpoint names.")] = ["*"],
    limit: Annotated[
        list[str],
        typer.Option(metavar="[MODEL:]NAME=N", help=f"A limit, in total or per model: {', '.join(LIMIT_NAMES)}."),
    ] = [],
    min_priority: Annotated[int, typer.Option(help="The best queue priority it can request, -100 to 100.")] = 0,
    weight: Annotated[float, typer.Option(help="Its weight in fair sharing between keys.")] = 1.0,
    cache_group: Annotated[str, typer.Option(help="Keys of one group share cached prompts; default: none.")] = "",
    slo_first_token_seconds: Annotated[
        float | None, typer.Option(help="Its requests' objective for the first token; default: none.")
    ] = None,
    slo_token_seconds: Annotated[
        float | None, typer.Option(help="Its requests' objective for the time between tokens; default: none.")
    ] = None,
    expires: Annotated[str, typer.Option(help="A date, or a time from now such as 90d or 12h; default: never.")] = "",
    as_json: AsJson = False,
) -> None:
    """Create a key and print it; it can't be shown again. Creates the file if it does not exist."""
    key_id = key_id or new_id()
    key = new_key(key_id)
    in_all, by_model = changed_limits(limit, {}, {})
    given = {
        "id": key_id,
        "name": name,
        "sha256": digest(key),
        "scopes": list(scope),
        "models": model,
        "endpoints": endpoint,
        "limits": in_all,
        "limits_by_model": by_model,
        "min_priority": min_priority,
        "weight": weight,
        "cache_group": cache_group,
        "slo_first_token_seconds": slo_first_token_seconds,
        "slo_token_seconds": slo_token_seconds,
        "expires": instant(expires),
    }

    def add(entries: list[KeyEntry]) -> tuple[list[KeyEntry], KeyEntry]:
        if any(each.id == key_id for each in entries):
            raise KeysError(f"--id: there is a key {key_id!r}")
        entry = to_entry(given, "the new key")
        return [*entries, entry], entry

    _show_new(key, _changed(file, add, must_exist=False), as_json=as_json)


@APP.command("list")
def list_keys(file: File, as_json: AsJson = False) -> None:
    """List all keys."""
    entries = _checked(lambda: keys_at(file))
    if as_json:
        print_json([_public_fields(entry) for entry in entries])
        return
    print_table([("ID", "NAME", "STATE", "EXPIRES", "SCOPES"), *map(_row, entries)])


@APP.command()
def show(key_id: KeyId, file: File, as_json: AsJson = False) -> None:
    """Show the stored fields of a key. The key itself is not stored."""
    _show_entry(_checked(lambda: _find(keys_at(file), key_id)), as_json=as_json)


def _show_entry(entry: KeyEntry, *, as_json: bool) -> None:
    if as_json:
        print_json(_public_fields(entry))
        return
    for name, value in _public_fields(entry).items():
        print_text(f"{name}: {json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value}")


@APP.command()
def revoke(
    key_id: KeyId,
    file: File,
    delete: Annotated[
        bool, typer.Option("--delete", help="Remove the entry, so that responses do not say that it is revoked.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Revoke a key. Running requests continue."""

    def change(entries: list[KeyEntry]) -> tuple[list[KeyEntry], KeyEntry]:
        entry = _find(entries, key_id)
        revoked = entry.model_copy(update={"disabled": True})
        rest = [revoked if each is entry else each for each in entries]
        return [each for each in rest if each is not revoked] if delete else rest, revoked

    entry = _changed(file, change)
    if as_json:
        print_json(_public_fields(entry))
    else:
        typer.echo(f"{key_id} is {'deleted' if delete else 'revoked'}")


@APP.command()
def enable(key_id: KeyId, file: File, as_json: AsJson = False) -> None:
    """Enable a revoked key again. An expired key stays expired; `edit --expires` changes the date."""

    def change(entries: list[KeyEntry]) -> tuple[list[KeyEntry], KeyEntry]:
        return _replaced(entries, _find(entries, key_id), {"disabled": False})

    _show_entry(_changed(file, change), as_json=as_json)


@APP.command()
def edit(
    key_id: KeyId,
    file: File,
    name: Annotated[str | None, typer.Option(help="A description of the key's owner.")] = None,
    scope: Annotated[list[Scope], typer.Option(help="All operations that the key allows; repeatable.")] = [],
    model: Annotated[list[str], typer.Option(help="All patterns of model names; repeatable.")] = [],
    endpoint: Annotated[list[str], typer.Option(help="All patterns of endpoint names; repeatable.")] = [],
    limit: Annotated[
        list[str], typer.Option(metavar="[MODEL:]NAME=N", help="A limit to set; NAME= without a number removes it.")
    ] = [],
    min_priority: Annotated[int | None, typer.Option(help="The best queue priority, -100 to 100.")] = None,
    weight: Annotated[float | None, typer.Option(help="Its weight in fair sharing between keys.")] = None,
    cache_group: Annotated[str | None, typer.Option(help="Keys of one group share cached prompts.")] = None,
    slo_first_token_seconds: Annotated[
        float | None, typer.Option(help="Its requests' objective for the first token.")
    ] = None,
    slo_token_seconds: Annotated[
        float | None, typer.Option(help="Its requests' objective for the time between tokens.")
    ] = None,
    expires: Annotated[str | None, typer.Option(help="A date, a time from now such as 90d, or never.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change the rights of a key. The key itself and all other fields stay."""
    lists = {"scopes": scope, "models": model, "endpoints": endpoint}
    values = {
        "name": name, "min_priority": min_priority, "weight": weight, "cache_group": cache_group,
        "slo_first_token_seconds": slo_first_token_seconds, "slo_token_seconds": slo_token_seconds,
    }  # fmt: skip
    given: dict[str, Any] = {field: value for field, value in lists.items() if value}
    given |= {field: value for field, value in values.items() if value is not None}
    if expires is not None:
        given["expires"] = None if expires == "never" else instant(expires)
    if not given and not limit:
        raise typer.BadParameter("nothing to change; give an option such as --limit or --expires")

    def change(entries: list[KeyEntry]) -> tuple[list[KeyEntry], KeyEntry]:
        entry = _find(entries, key_id)
        plain = to_plain(entry)
        in_all, by_model = changed_limits(limit, plain.get("limits", {}), plain.get("limits_by_model", {}))
        return _replaced(entries, entry, {**given, "limits": in_all, "limits_by_model": by_model})

    _show_entry(_changed(file, change), as_json=as_json)


@APP.command()
def rotate(
    key_id: KeyId,
    file: File,
    overlap: Annotated[str, typer.Option(help="How long the old key stays valid, such as 24h.")] = "24h",
    as_json: AsJson = False,
) -> None:
    """Create a new key with the same id and rights, and print it; it can't be shown again."""
    key = new_key(key_id)

    def change(entries: list[KeyEntry]) -> tuple[list[KeyEntry], KeyEntry]:
        entry = _find(entries, key_id)
        rotated = entry.model_copy(
            update={
                "sha256": digest(key),
                "previous_sha256": entry.sha256,
                "previous_expires": instant(overlap) or datetime.now(UTC),
            }
        )
        return [rotated if each is entry else each for each in entries], rotated

    _show_new(key, _changed(file, change), as_json=as_json)


def _changed(
    file: str, change: Callable[[list[KeyEntry]], tuple[list[KeyEntry], KeyEntry]], *, must_exist: bool = True
) -> KeyEntry:
    """Change the keys and return the changed entry. Fail with the reason if they are invalid."""
    return _checked(lambda: change_keys(file, change, must_exist=must_exist))


def _checked(work: Callable[[], Result]) -> Result:
    """Return the result of `work`. A KeysError ends the command."""
    try:
        return work()
    except KeysError as error:
        fail(str(error))


def _find(entries: Iterable[KeyEntry], key_id: str) -> KeyEntry:
    """Return the entry of a key. Raise KeysError if there is none."""
    if (found := next((each for each in entries if each.id == key_id), None)) is None:
        raise KeysError(f"there is no key {key_id!r}")
    return found


def _replaced(entries: Iterable[KeyEntry], entry: KeyEntry, values: dict[str, Any]) -> tuple[list[KeyEntry], KeyEntry]:
    """Return `entries` with new values of `entry`, and the new entry. Raise KeysError for invalid values."""
    changed = to_entry({**to_plain(entry), **values}, "the key")
    return [changed if each is entry else each for each in entries], changed


def _show_new(key: str, entry: KeyEntry, *, as_json: bool) -> None:
    """Print a new key, which is shown only once."""
    if as_json:
        print_json({"key": key, **_public_fields(entry)})
    else:
        typer.echo(key)
        typer.echo(f"This is the key of {entry.id}. It is not stored and can't be shown again.", err=True)


def _public_fields(entry: KeyEntry) -> dict[str, Any]:
    """Return the fields of an entry without hashes, and with its state."""
    public = {name: value for name, value in to_plain(entry).items() if not name.endswith("sha256")}
    return {**public, "state": _state(entry)}


def _state(entry: KeyEntry) -> str:
    """Return whether a key is active, expired or revoked."""
    if entry.disabled:
        return "revoked"
    return "expired" if entry.expires is not None and entry.expires <= datetime.now(UTC) else "active"


def _row(entry: KeyEntry) -> tuple[str, str, str, str, str]:
    """Return an entry's row in the list of keys."""
    expires = entry.expires.date().isoformat() if entry.expires else "never"
    return entry.id, entry.name, _state(entry), expires, ",".join(entry.scopes)
