"""Pages of models in the form of Anthropic's API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
from sluice.v1.model_pb2 import Model

from gateway.dialects.seam.failure import Failure, Reason

_DEFAULT_LIMIT: Final = 20
_MOST: Final = 1000


def to_model_page(models: Sequence[Model], query: Mapping[str, str]) -> bytes:
    """Return the body of `GET /v1/models`. `limit` models after `after_id` or before `before_id`. Raise Failure."""
    limit = _limit(query.get("limit"))
    names = [model.name for model in models]
    if (last := query.get("before_id")) is not None:
        end = _index_of(names, last, "before_id")
        page, has_more = models[max(0, end - limit) : end], end > limit
    else:
        first = query.get("after_id")
        start = 0 if first is None else _index_of(names, first, "after_id") + 1
        page, has_more = models[start : start + limit], len(models) > start + limit
    ids = [page[i].name if page else None for i in (0, -1)]
    data = [_to_model(model) for model in page]
    return orjson.dumps({"data": data, "has_more": has_more, "first_id": ids[0], "last_id": ids[1]})


def to_model(model: Model) -> bytes:
    """Return the body of `GET /v1/models/{id}`."""
    return orjson.dumps(_to_model(model))


def _to_model(model: Model) -> dict[str, Any]:
    return {
        "type": "model",
        "id": model.name,
        "display_name": model.name,
        "created_at": model.created.ToDatetime().strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
        "max_input_tokens": model.max_model_len,
        "max_tokens": model.max_model_len,
    }


def _limit(given: str | None) -> int:
    """Return the number of models per page. Raise Failure for an invalid one."""
    limit = (
        _DEFAULT_LIMIT
        if given is None
        else int(given)
        if given.isascii() and given.isdecimal() and len(given) < 5
        else 0
    )
    if not 1 <= limit <= _MOST:
        raise Failure.of_field("limit", f"must be from 1 to {_MOST}")
    return limit


def _index_of(names: Sequence[str], name: str, field: str) -> int:
    try:
        return names.index(name)
    except ValueError:
        raise Failure.of_field(field, f"no model is called {name[:256]!r}", Reason.INVALID_FIELD) from None
