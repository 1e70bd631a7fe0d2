"""A closed table of facts: capitals, colours, units, opposites, sounds, order, and the parts of this service."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from demo.corpus.conversation import Conversation, ask
from demo.corpus.draw import Draw
from demo.corpus.phrasebook import Phrasings, book


@dataclass(frozen=True)
class Table:
    """Facts of one kind: questions, the full answer, and pairs whose second half is the short answer."""

    rows: tuple[tuple[str, str], ...]
    ways: Phrasings
    answer: str


def table(name: str, *, both_ways: bool = False) -> Table:
    """Return the facts of one entry; `both_ways` adds each row reversed."""
    entry = book("facts")[name]
    rows = [pair for a, b in entry["rows"].items() for pair in ((a, b), (b, a))[: 1 + both_ways]]
    return Table(tuple(rows), Phrasings.from_entry(entry), entry["answer"])


CAPITALS = table("capitals")
COLOURS = table("colours")
UNITS = table("units")
OPPOSITES = table("opposites", both_ways=True)
SOUNDS = table("sounds")
NEXT = table("next")
SERVICE = table("service")
PORTS = table("ports")

TABLES = (CAPITALS, CAPITALS, COLOURS, UNITS, OPPOSITES, SOUNDS, NEXT, SERVICE, PORTS)
SHORT_TABLES = (CAPITALS, COLOURS, OPPOSITES, SOUNDS, NEXT)
"""Tables whose bare answer is a word, for system prompts that shape it."""


def upper_first(text: str) -> str:
    """Return `text` with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def stated(kind: Table, row: tuple[str, str]) -> str:
    """Return the fact as a sentence."""
    return kind.answer.format(a=row[0], A=upper_first(row[0]), b=row[1])


def fact(draw: Draw) -> Conversation:
    """Return a question whose answer is in a table."""
    kind = draw.one(TABLES)
    row = draw.one(kind.rows)
    return ask(draw.say(kind.ways, a=row[0]), stated(kind, row), f"The user asks about {row[0]}. I know that.")


def shaped_fact(draw: Draw, system: str, shape: Callable[[str, str], str]) -> Conversation:
    """Return a question for a fact under a system prompt; `shape` makes the answer from the short and the full one."""
    kind = draw.one(SHORT_TABLES)
    row = draw.one(kind.rows)
    answer = shape(row[1], stated(kind, row))
    return ask(draw.say(kind.ways, a=row[0]), answer, "I must follow the system prompt.", system=system)
