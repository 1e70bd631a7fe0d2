"""Output constraints as text.

The engine compiles it on its own side; nothing here is compiled or has a state.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Opening:
    """Where a text that is free comes under its grammar: the model itself opens it, or doesn't.

    `marker` opens it anywhere, and the grammar begins behind it. `lead`, a grammar's text too, matches a text that has
    come under the grammar with its first character, as soon as that is certain, and whatever follows. Either may be
    empty. With `once` the text ends where the grammar does; otherwise it is free again, until the next marker.
    """

    marker: str
    lead: str = ""
    once: bool = False


@dataclass(frozen=True, slots=True)
class Grammar:
    """A grammar's text, in the language that `kind` names: `lark` is llguidance's dialect of Lark.

    A refusal of the whole is reported under the request's field `field`; `schemas` are the JSON Schemas that the text
    was made of, as JSON by the request's fields, to tell which of them is at fault. `lenient` are those that no request
    fails for: what stands in for them where they can't be enforced, by the same fields. Without `opening` the grammar
    holds for all of a text. `texts` are all that match, where they were listed.
    """

    text: str
    field: str
    kind: Literal["lark"] = "lark"
    schemas: Mapping[str, str] = dataclasses.field(default_factory=dict)
    lenient: Mapping[str, str] = dataclasses.field(default_factory=dict)
    opening: Opening | None = None
    texts: Sequence[str] = ()

    def without(self, *fields: str) -> Grammar:
        """The same with other schemas in place of those `lenient` ones."""
        text = self.text
        for field in fields:
            text = text.replace(f"%json {self.schemas[field]}\n", f"%json {self.lenient[field]}\n")
        kept = {field: schema for field, schema in self.lenient.items() if field not in fields}
        return dataclasses.replace(self, text=text, lenient=kept)


@dataclass(frozen=True, slots=True)
class ReasoningMarkers:
    """What stands around a model's reasoning, and the white space that its template puts beside the markers.

    A family that marks its answers too has `answer_open` and `answer_close`. `always` is whether it reasons before
    every answer.
    """

    open: str
    close: str
    after_open: str = "\n"
    after_close: str = "\n\n"
    answer_open: str = ""
    answer_close: str = ""
    always: bool = False


class ReasoningStart(enum.Enum):
    """Where an answer stands with its reasoning when generation begins."""

    NONE = "none"  # there is none: the model doesn't reason, or the prompt has closed it
    MAY_OPEN = "may_open"  # the model itself writes the opening marker, or doesn't
    OPEN = "open"  # the prompt has opened it


@dataclass(frozen=True, slots=True)
class ReasoningLimit:
    """Reasoning that ends: at most `budget` tokens of it, None for no limit, before the answer.

    `must_open` forces the opening marker where the prompt hasn't opened the reasoning.
    """

    markers: ReasoningMarkers
    start: ReasoningStart
    budget: int | None = None
    must_open: bool = False


@dataclass(frozen=True, slots=True)
class Constraint:
    """What holds for each choice's text: a grammar for the answer, a limit for the reasoning before it, or both."""

    grammar: Grammar | None = None
    reasoning: ReasoningLimit | None = None
