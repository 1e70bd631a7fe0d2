"""One golden exchange, and the parts that requests of several dialects share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.gateway.golden_service import Answers

Body = dict[str, Any]


@dataclass(frozen=True)
class Exchange:
    """One request, and the service's answers to it. `name` is its golden file's; a body of bytes is sent as it is."""

    name: str
    path: str
    body: Body | bytes | None = None
    answers: Answers = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    method: str = "POST"


MESSAGES: Final = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
TOOL: Final = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "maximum": 1.0}}}
SAMPLING: Final[Body] = {"temperature": 0.5, "seed": 42}
KEY: Final = {"api-key": "k"}
MODEL: Final[Body] = {"model": "m"}
