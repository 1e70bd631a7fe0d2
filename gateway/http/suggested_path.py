"""The served path that a request for an unknown path probably means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from starlette.routing import BaseRoute, Match, Route

from process.settings.names import closest

_MAX_LENGTH: Final = 256  # the maximum length of paths that are compared
_BASES: Final = ("/v1/", "/v2/", "/openai/", "/serving-endpoints/", "/api/2.0/")
_OTHER_SERVERS: Final = {  # paths of llama.cpp, TGI and SageMaker
    "/completion": "/v1/completions",
    "/generate": "/v1/completions",
    "/generate_stream": "/v1/completions",
    "/invocations": "/v1/chat/completions",
    "/v1/chat": "/v1/chat/completions",
}


def suggested_path(method: str, path: str, routes: Sequence[BaseRoute]) -> str | None:
    """Return the path that one of the routes serves with the method, or None if no path is close to `path`."""
    if len(path) > _MAX_LENGTH:
        return None
    able = [each for each in routes if isinstance(each, Route) and method in (each.methods or ())]
    for candidate in _candidates(path):
        scope = {"type": "http", "method": method, "path": candidate, "root_path": "", "headers": []}
        if any(each.matches(scope)[0] is Match.FULL for each in able):
            return candidate
    return closest(path, [each.path for each in able if "{" not in each.path and each.path != path])


def _candidates(path: str) -> Iterator[str]:
    """Yield another server's equivalent, then the path without leading segments, then the path under /v1."""
    if path in _OTHER_SERVERS:
        yield _OTHER_SERVERS[path]
    segments = path.split("/")
    for start in range(2, len(segments)):
        shorter = "/" + "/".join(segments[start:])
        if shorter.startswith(_BASES):
            yield shorter
    yield f"/v1{path}"
