"""Output constraints as text, which the core compiles. Nothing here is compiled or has state."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Opening:
    """How a grammar starts to apply to a text that is unconstrained at first, if the model chooses so.

    Each of `markers` opens the grammar anywhere, and the grammar applies after it. A marker of letters only may also be
    a word of the text; it opens the grammar only if a call follows without white space. `lead` is a grammar of texts to
    which the constraint applies from the first character, with any continuation. Both may be empty. With `once` the
    text ends with the grammar; otherwise it is unconstrained again until the next marker.
    """

    markers: tuple[str, ...]
    lead: str = ""
    once: bool = False


@dataclass(frozen=True, slots=True)
class Grammar:
    """A grammar's text, in the language that `kind` names: `lark` is llguidance's dialect of Lark.

    An error of the whole grammar is reported under the request's field `field`. `schemas` are the JSON Schemas that it
    was made of, as JSON by the request's fields, to report which one is invalid. `lenient` has, by the same fields, the
    substitutes of schemas that need not be enforced. Without `opening` the grammar applies to the whole text. `texts`
    are all matches, if they were listed.
    """

    text: str
    field: str
    kind: Literal["lark"] = "lark"
    schemas: Mapping[str, str] = dataclasses.field(default_factory=dict)
    lenient: Mapping[str, str] = dataclasses.field(default_factory=dict)
    opening: Opening | None = None
    texts: Sequence[str] = ()

    def without(self, *fields: str) -> Grammar:
        """Return the grammar with the substitutes of the schemas of `fields`."""
        text = self.text
        for field in fields:
            text = text.replace(f"%json {self.schemas[field]}\n", f"%json {self.lenient[field]}\n")
        kept = {field: schema for field, schema in self.lenient.items() if field not in fields}
        return dataclasses.replace(self, text=text, lenient=kept)


@dataclass(frozen=True, slots=True)
class ReasoningMarkers:
    """The markers around a model's reasoning, and the white space that its template puts next to them.

    Families that also mark answers have `answer_open` and `answer_close`. `always` is true if the model reasons before
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
    """The state of an answer's reasoning when generation begins."""

    NONE = "none"  # no reasoning: the model doesn't reason, or the prompt has closed it
    MAY_OPEN = "may_open"  # the model may write the opening marker
    OPEN = "open"  # the prompt has opened it


@dataclass(frozen=True, slots=True)
class ReasoningLimit:
    """A limit of the reasoning before an answer: `budget` tokens, or None for no limit.

    `must_open` forces the opening marker if the prompt hasn't opened the reasoning.
    """

    markers: ReasoningMarkers
    start: ReasoningStart
    budget: int | None = None
    must_open: bool = False


@dataclass(frozen=True, slots=True)
class Constraint:
    """The constraint of each choice's text: a grammar for the answer, a limit for its reasoning, or both."""

    grammar: Grammar | None = None
    reasoning: ReasoningLimit | None = None
