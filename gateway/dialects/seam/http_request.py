"""An HTTP request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """The body's bytes, and the parts of an HTTP request that a dialect may read.

    For repeated names, `headers` has the first value and `query` the last. Header names are in lower case.
    """

    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
