"""The introduction of the OpenAPI document: how to try a path, where a key goes, and how streams work."""

from __future__ import annotations

from typing import Any, Final

ABOUT: Final = """\
**To try a path**, open it, press *Try it out*, then *Execute*: each has a working example.

**API keys:** a server on your own machine needs none by default. If the server requires one (401), press *Authorize*
and enter it. This page keeps it in memory until you leave. Any one of the three headers is enough.

**Streams:** with `stream: true` an answer is a stream of server-sent events, `text/event-stream`. The schema of an
event's `data` is the `contentSchema` in that media type's schema, and its examples are whole streams. An error before
the first event is a status; a later error is the last event.
"""
_KEY: Final = "The API key from the server's operator, as printed by `sluice keys create`. Sent as"
KEYS: Final[dict[str, dict[str, Any]]] = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": f"{_KEY} `authorization: Bearer KEY`, as OpenAI's and Databricks' clients do.",
    },
    "api-key": {
        "type": "apiKey",
        "in": "header",
        "name": "api-key",
        "description": f"{_KEY} `api-key: KEY`, as Azure's clients do.",
    },
    "x-api-key": {
        "type": "apiKey",
        "in": "header",
        "name": "x-api-key",
        "description": f"{_KEY} `x-api-key: KEY`, as Anthropic's clients do.",
    },
}
