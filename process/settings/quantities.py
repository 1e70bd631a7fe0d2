"""Types of settings that have a unit and a range."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, Field

from process.settings.setting import UNIT


def _of(unit: str) -> dict[str, Any]:
    """Return the JSON Schema keyword that names a unit."""
    return {UNIT: unit}


def _origin(text: str) -> str:
    """Return the origin of a page as browsers send it: in lower case, without a path."""
    if text != "*" and not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^\s/?#@*]+", text.lower()):
        raise ValueError(f"{text!r} is not an origin; expected SCHEME://HOST[:PORT] without a path, or *")
    return text.lower()


Port: TypeAlias = Annotated[int, Field(ge=0, le=65535)]
Host: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(lambda host: host.strip("[]"))]  # [::1] is ::1
Origin: TypeAlias = Annotated[str, AfterValidator(_origin)]  # of a web page, or * for all
Seconds: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False, json_schema_extra=_of("seconds"))]
Interval: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False, json_schema_extra=_of("seconds"))]
Bytes: TypeAlias = Annotated[int, Field(ge=1, json_schema_extra=_of("bytes"))]
Tokens: TypeAlias = Annotated[int, Field(ge=1, json_schema_extra=_of("tokens"))]
Count: TypeAlias = Annotated[int, Field(ge=1)]
