"""The headers of answers, as the API's description has them. None of them is there in every case."""

from __future__ import annotations

from typing import Any, Final

_LEFT: Final = {
    f"x-ratelimit-{part}-{kind}": {
        "description": f"{text}, where the caller has a limit of {kind} a minute.",
        "schema": schema,
    }
    for kind in ("requests", "tokens", "input-tokens", "output-tokens")
    for part, text, schema in (
        ("limit", "The limit", {"type": "integer", "minimum": 1}),
        ("remaining", "What is left of it", {"type": "integer", "minimum": 0}),
        ("reset", "The time until all of it is back, such as `1s`, `6m0s` or `20ms`", {"type": "string"}),
    )
}
_RETRY: Final = {
    "retry-after": {"description": "Seconds, after which a retry makes sense.", "schema": {"type": "integer"}},
    "retry-after-ms": {"description": "The same in milliseconds.", "schema": {"type": "integer"}},
}
_COST: Final = {
    "x-sluice-cost": {
        "description": (
            "What the answer has cost, for who sends `x-sluice-cost: true`: its share of the engine's time, the cache "
            "blocks that it held times seconds, and the tokens of its prompt that were cached. A stream tells it in a "
            "comment at its end."
        ),
        "schema": {"type": "string", "example": "compute_s=0.012345, block_s=0.067890, cached_tokens=32"},
    }
}

HEADERS: Final = {**_RETRY, **_LEFT, **_COST}


def header_references(status: int, *, is_limited: bool) -> dict[str, Any]:
    """Those of an answer of that status; `is_limited` where something is generated."""
    names = [
        *(_RETRY if status in {429, 503, 529} else ()),
        *(_LEFT if is_limited and status in {200, 429} else ()),
        *(_COST if is_limited and status == 200 else ()),
    ]
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}
