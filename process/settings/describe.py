"""Descriptions of settings that are plain dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from pydantic.fields import FieldInfo


def describe(kind: type, words: Mapping[str, str]) -> None:
    """Give the fields of a pydantic dataclass their descriptions, which --help and docs/settings.md show."""
    for name, each in cast("Mapping[str, FieldInfo]", kind.__pydantic_fields__).items():  # type: ignore[attr-defined]
        each.description = words.get(name)
