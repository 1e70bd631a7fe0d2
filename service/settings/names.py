"""The names of models, adapters and endpoints in the settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field


def _path_segment(name: str) -> str:
    """Return the name. Raise ValueError for a name that HTTP clients resolve as a relative path."""
    if name in {".", ".."}:
        raise ValueError("must not be . or .., which a URL's path can't contain")
    return name


ModelName: TypeAlias = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(_path_segment)]
PlainName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,256}$"), AfterValidator(_path_segment)]


def first_duplicate(names: Sequence[str]) -> str | None:
    """Return the first name that occurs more than once."""
    return next((name for name in names if names.count(name) > 1), None)
