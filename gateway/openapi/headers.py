"""The response headers in the OpenAPI document. All of them are optional."""

from __future__ import annotations

from typing import Any, Final

_LEFT: Final = {
    f"x-ratelimit-{part}-{kind}": {
        "description": f"{text}, if the API key has a limit of {kind} per minute.",
        "schema": schema,
    }
    for kind in ("requests", "tokens", "input-tokens", "output-tokens")
    for part, text, schema in (
        ("limit", "The limit", {"type": "integer", "minimum": 1}),
        ("remaining", "The rest of the limit", {"type": "integer", "minimum": 0}),
        (
            "reset",
            "The time until it is the whole limit again, such as `1s`, `6m0s` or `20ms`",
            {"type": "string"},
        ),
    )
}
_RETRY: Final = {
    "retry-after": {"description": "Seconds to wait before a retry.", "schema": {"type": "integer"}},
    "retry-after-ms": {"description": "Milliseconds to wait before a retry.", "schema": {"type": "integer"}},
}
_COST: Final = {
    "x-sluice-cost": {
        "description": (
            "The cost of the answer, if the request has `x-sluice-cost: true`: its share of the engine's compute time, "
            "the cache blocks that it held, multiplied by seconds, and the cached tokens of its prompt. In a stream it "
            "is a comment at the end."
        ),
        "schema": {"type": "string", "example": "compute_s=0.012345, block_s=0.067890, cached_tokens=32"},
    }
}

HEADERS: Final = {**_RETRY, **_LEFT, **_COST}


def header_references(status: int, *, is_limited: bool) -> dict[str, Any]:
    """Return references to the headers of a status; `is_limited` is true of operations that generate."""
    names = [
        *(_RETRY if status in {429, 503, 529} else ()),
        *(_LEFT if is_limited and status in {200, 429} else ()),
        *(_COST if is_limited and status == 200 else ()),
    ]
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}
