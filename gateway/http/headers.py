"""A request's headers, read once: Starlette's mapping scans all of them at each look-up."""

from __future__ import annotations

from starlette.types import Scope


def headers_of(scope: Scope) -> dict[str, str]:
    """The headers by their names in lower case; of one that came several times, the first."""
    state = scope.setdefault("state", {})
    found: dict[str, str] | None = state.get("headers")
    if found is None:
        pairs = reversed(scope["headers"])
        found = state["headers"] = {name.decode("latin-1"): value.decode("latin-1") for name, value in pairs}
    return found
