"""What the description says before all paths: how to try one, where a key goes, how streams are told."""

from __future__ import annotations

from typing import Any, Final

ABOUT: Final = """\
**To try a path**, open it, press *Try it out*, then *Execute*: each has an example that works.

**Keys:** a server on your own machine needs none. Where one is asked for (401), press *Authorize* and give it once. It
stays in this page's memory only, and is forgotten when you leave. Any one of the three headers will do.

**Streams:** with `stream: true` an answer comes as server-sent events, `text/event-stream`. What an event's `data`
holds is told by `contentSchema` of that media type's schema, and its examples are whole streams. An error before the
first event is a status, after it the last event.
"""
_KEY: Final = "The key that the server's operator gave you, as `sluice keys create` prints it. Sent as"
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
