"""The entries of a keys file, one per key, and their text."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, Self, TypeAlias

import yaml
from pydantic import AfterValidator, Field, ValidationError, model_validator

from process.files.parse_error import parse_error_text
from service.auth.grant import Grant, Name
from service.auth.keys.key import ID_PATTERN

_HEADER = "# Keys of sluice. `sluice keys` rewrites this file, without other comments. It holds no secret.\n"
_FIELDS = (
    "scopes", "models", "endpoints", "limits", "limits_by_model", "min_priority", "weight", "cache_group",
    "slo_first_token_seconds", "slo_token_seconds",
)  # fmt: skip

Sha256: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Instant: TypeAlias = Annotated[
    datetime, AfterValidator(lambda each: each if each.tzinfo else each.replace(tzinfo=UTC))
]  # UTC if it has no zone


class KeysError(Exception):
    """Invalid keys; the text is one line that names the entry and the field."""


class KeyEntry(Grant):
    """One key. After a rotation, the previous key is valid until `previous_expires`."""

    id: Annotated[str, Field(pattern=f"^{ID_PATTERN}$")]
    name: Name = ""
    sha256: Sha256
    previous_sha256: Sha256 | None = None
    previous_expires: Instant | None = None
    expires: Instant | None = None
    disabled: bool = False

    @model_validator(mode="after")
    def _previous_ends(self) -> Self:
        if (self.previous_sha256 is None) != (self.previous_expires is None):
            raise ValueError("previous_sha256 and previous_expires must be set together")
        return self


def load(text: str) -> list[KeyEntry]:
    """Parse the text of a keys file. Raise KeysError."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise KeysError(parse_error_text(error)) from error
    except (
        ValueError,
        TypeError,
        OverflowError,
        RecursionError,
    ) as error:  # for example an impossible date
        raise KeysError(f"not valid YAML: {' '.join(str(error).split())}") from error
    if document is None:
        document = {}
    listed = document.get("keys", []) if isinstance(document, dict) else None
    if not isinstance(listed, list) or set(document) - {"keys"}:
        raise KeysError("the file must have one name, keys, with a list of keys")
    entries = [to_entry(each, f"keys[{index}]") for index, each in enumerate(listed)]
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        if entry.id in seen:
            raise KeysError(f"keys[{index}] ({entry.id}): id: another key has it, too")
        seen.add(entry.id)
    return entries


def dump(entries: Iterable[KeyEntry]) -> str:
    """Return the text of a keys file with these entries, without defaults."""
    listed = [to_plain(entry) for entry in entries]
    return _HEADER + yaml.safe_dump({"keys": listed}, sort_keys=False, allow_unicode=True, width=120)


def to_plain(entry: KeyEntry) -> dict[str, Any]:
    """Return an entry as plain lists, mappings and strings, without defaults."""
    values: dict[str, Any] = entry.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
    for name in ("limits", "limits_by_model"):
        if name in values:
            values[name] = _without_nulls(values[name])
    first = ("id", "name")
    return {name: values[name] for name in (*first, *_FIELDS, *values) if name in values}


def _without_nulls(values: dict[str, Any]) -> dict[str, Any]:
    """Return nested values without those that are None."""
    nested = {name: _without_nulls(each) if isinstance(each, dict) else each for name, each in values.items()}
    return {name: each for name, each in nested.items() if each is not None}


def to_entry(given: object, position: str) -> KeyEntry:
    """Return the entry of plain values; `position` identifies it in errors. Raise KeysError."""
    if isinstance(given, dict) and isinstance(given.get("id"), str):
        position += f" ({given['id'][:64]})"
    try:
        return KeyEntry.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in first["loc"]).lstrip(".")
        text = "unknown field" if first["type"] in {"extra_forbidden", "unexpected_keyword_argument"} else first["msg"]
        text = text.removeprefix("Value error, ")
        raise KeysError(": ".join(each for each in (position, field, text) if each)) from error
