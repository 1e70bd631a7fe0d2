"""The headers of a request as a dict: Starlette's mapping scans all headers at each lookup."""

from __future__ import annotations

from starlette.types import Scope


def headers_of(scope: Scope) -> dict[str, str]:
    """Return the headers by lower-case name; of repeated headers, the first."""
    state = scope.setdefault("state", {})
    found: dict[str, str] | None = state.get("headers")
    if found is None:
        pairs = reversed(scope["headers"])
        found = state["headers"] = {name.decode("latin-1"): value.decode("latin-1") for name, value in pairs}
    return found
