"""The format that an answer's text must have.

Each has its `field`: its path in the client's request, for errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class JsonObject:
    """Any JSON object."""

    field: str


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """JSON that matches a schema, given as JSON text. `strict` requires that every keyword can be enforced.

    `name` and `description` describe its purpose to the model.
    """

    schema: str
    strict: bool
    field: str
    name: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class Regex:
    """A text that matches a regular expression, in the syntax of Rust's regex crate."""

    pattern: str
    field: str


@dataclass(frozen=True, slots=True)
class TextChoice:
    """One of several texts."""

    texts: Sequence[str]
    field: str


@dataclass(frozen=True, slots=True)
class TextGrammar:
    """A text that a context-free grammar describes: in llguidance's dialect of Lark, or in GBNF."""

    text: str
    field: str


OutputFormat: TypeAlias = JsonObject | JsonSchema | Regex | TextChoice | TextGrammar
