"""Parse the options of `sluice keys`: limits, and dates or durations. An invalid value raises `typer.BadParameter`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Final

import typer

from service.generation.caller import Limits

LIMIT_NAMES: Final = [field.name for field in fields(Limits)]

_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def changed_limits(
    given: Iterable[str], in_all: Mapping[str, int], by_model: Mapping[str, Mapping[str, int]]
) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """Return limits in total and per model, changed by texts such as `max_n=4` and `llama-3:max_tokens=512`.

    A text without a number removes a limit.
    """
    changed = dict(in_all)
    changed_by_model = {model: dict(limits) for model, limits in by_model.items()}
    for each in given:
        target, _, value = each.rpartition("=")
        model, colon, name = target.rpartition(":")
        if name not in LIMIT_NAMES or not (value.isdecimal() or (not value and "=" in each)):
            raise typer.BadParameter(f"{each!r} must be NAME=N or MODEL:NAME=N; the names are {', '.join(LIMIT_NAMES)}")
        limits = changed_by_model.setdefault(model, {}) if colon else changed
        if value:
            limits[name] = int(value)
        else:
            limits.pop(name, None)
    return changed, {model: limits for model, limits in changed_by_model.items() if limits}


def instant(text: str) -> datetime | None:
    """Parse a duration from now such as `90d`, or a date; return None for an empty text."""
    if not text:
        return None
    if found := re.fullmatch(r"([0-9]{1,5})([mhdw])", text):
        return datetime.now(UTC).replace(microsecond=0) + timedelta(**{_UNITS[found[2]]: int(found[1])})
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} must be a date such as 2027-01-31, or a time from now such as 90d"
        ) from None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
