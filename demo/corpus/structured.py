"""JSON objects: for named keys, for a schema, and without any instruction."""

from __future__ import annotations

import json
from typing import Any

from demo.corpus import vocabulary
from demo.corpus.conversation import Conversation, Message, Segment, ask
from demo.corpus.draw import Draw
from demo.corpus.phrasebook import phrasings

Field = tuple[str, Any, str, dict[str, Any]]
"""A key, its value, the clause that states the value, and its JSON schema."""

BY_KEYS = phrasings("structured", "by_keys")
BY_SCHEMA = phrasings("structured", "by_schema")
SYSTEM = phrasings("structured", "system")
COMPACT = (" Compact JSON.", " No spaces in the JSON.", " Use compact JSON.", " Write it without spaces.")


def _known(draw: Draw) -> list[Field]:
    """Return facts about a person in natural wording."""
    name = draw.name()
    integer, string = {"type": "integer"}, {"type": "string"}
    age, city, colour, food = draw.number(1, 99), draw.name(), draw.one(vocabulary.COLOURS), draw.one(vocabulary.FOODS)
    job, animal, count = draw.one(vocabulary.JOBS), draw.one(vocabulary.ANIMALS), draw.number(1, 9)
    married = draw.chance(0.5)
    aged, living = draw.one((f"is {age} years old", f"is {age}")), draw.one((f"lives in {city}", f"is from {city}"))
    colour_key = draw.one(("color", "colour"))
    options = draw.some(vocabulary.COLOURS, 3)
    working = draw.one((f"is a {job}", f"works as a {job}"))
    others: list[Field] = [
        ("age", age, aged, integer),
        ("city", city, living, string),
        (colour_key, colour, f"likes {colour}", {"type": "string", "enum": options}),
        ("food", food, f"eats {food}", string),
        ("job", job, working, string),
        ("pet", animal, f"has a {animal}", string),
        ("children", count, f"has {count} children", integer),
        ("married", married, "is married" if married else "is not married", {"type": "boolean"}),
    ]
    if colour not in options:
        options[draw.random.randrange(3)] = colour
    return [("name", name, name, string), *draw.some(others, draw.random.randint(1, 3))]


def _coined(draw: Draw) -> list[Field]:
    """Return random keys and values in plain wording."""
    fields: list[Field] = []
    for parameter in draw.some(vocabulary.PARAMETERS, draw.random.randint(1, 4)):
        key = draw.coined() if draw.chance(0.25) else parameter
        if draw.chance(0.2):
            key += f"_{draw.one(vocabulary.TOOL_NOUNS)}"
        value, schema = typed_value(draw, key)
        clause = key.replace("_", " ") + " " + draw.one(("is ", "", ": ", "is ")) + spoken(value)
        fields.append((key, value, clause, schema))
    return fields


def typed_value(draw: Draw, key: str) -> tuple[Any, dict[str, Any]]:
    """Return a value that suits `key`, and its schema. A meaningful key never has a boolean or a fraction."""
    if key in vocabulary.NUMERIC:
        return draw.number(0, 999), {"type": "integer"}
    of_any_kind = KINDS if key not in vocabulary.PARAMETERS else WORDY
    return draw.one(of_any_kind)(draw)


Typed = tuple[Any, dict[str, Any]]


def _boolean(draw: Draw) -> Typed:
    return draw.chance(0.5), {"type": "boolean"}


def _integer(draw: Draw) -> Typed:
    return draw.number(0, 999), {"type": "integer"}


def _choice(draw: Draw) -> Typed:
    options = draw.words(2, 4)
    return draw.one(options), {"type": "string", "enum": options}


def _fraction(draw: Draw) -> Typed:
    return draw.number(0, 99) + draw.random.randint(1, 9) / 10, {"type": "number"}


def _name(draw: Draw) -> Typed:
    return draw.name(), {"type": "string"}


def _code(draw: Draw) -> Typed:
    return draw.code(), {"type": "string"}


def _phrase(draw: Draw) -> Typed:
    return " ".join(draw.words(2, 3)), {"type": "string"}


def _word(draw: Draw) -> Typed:
    return draw.word(), {"type": "string"}


KINDS = (_boolean, _integer, _choice, _fraction, _name, _name, _code, _phrase, _word, _word)
WORDY = (_choice, _name, _name, _code, _phrase, _word, _word)


def spoken(value: Any) -> str:
    """Return a JSON scalar as it is written in a sentence."""
    return value if isinstance(value, str) else json.dumps(value)


def _stated(draw: Draw, fields: list[Field]) -> str:
    """Return the facts as a sentence or a list."""
    if fields[0][0] == "name" and fields[0][2] == fields[0][1]:
        clauses = [words for _, _, words, _ in fields[1:]]
        joined = " and ".join(clauses) if draw.chance(0.7) else ", ".join(clauses)
        return f"{fields[0][1]} {joined}."
    clauses = [words for _, _, words, _ in fields]
    text = draw.one((", ", "; ", " and ", ". ")).join(clauses) + "."
    return text[:1].upper() + text[1:] if draw.chance(0.3) and not fields[0][0].isupper() else text


def _schema(draw: Draw, fields: list[Field]) -> str:
    schema: dict[str, Any] = {"type": "object", "properties": {key: kind for key, _, _, kind in fields}}
    if draw.chance(0.6):
        schema["required"] = [key for key, _, _, _ in fields]
    if draw.chance(0.3):
        schema["additionalProperties"] = False
    return json.dumps(schema)


def json_object(draw: Draw) -> Conversation:
    """Return a request for an object of given keys or a schema, in the given order."""
    fields = _known(draw) if draw.chance(0.5) else _coined(draw)
    facts = _stated(draw, fields)
    if draw.chance(0.3):
        draw.random.shuffle(fields)
    values = {key: value for key, value, _, _ in fields}
    keys = draw.one((", ", " and ", ", ")).join(values)
    schema = _schema(draw, fields)
    compact = draw.chance(0.2)
    hint = draw.one(COMPACT) if compact else ""
    text = json.dumps(values, separators=(",", ":") if compact else (", ", ": "), ensure_ascii=False)
    thought = f"The keys are {', '.join(values)}."
    if draw.chance(0.35):
        system = draw.say(SYSTEM, k=keys, s=schema)
        return ask(facts, text, thought, system=system + hint)
    way = draw.one((BY_KEYS, BY_SCHEMA))
    return ask(draw.say(way, f=facts, k=keys, s=schema) + hint, text, thought)


def unasked(draw: Draw) -> Conversation:
    """Return an object that the prompt doesn't request: its keys are given, as in constrained decoding."""
    fields = _known(draw) if draw.chance(0.5) else _coined(draw)
    facts = _stated(draw, fields)
    compact = draw.chance(0.5)
    comma, space = (",", "") if compact else (", ", " ")
    pieces: list[Segment] = []
    for i, (key, value, _, _) in enumerate(fields):
        pieces.append((("{" if i == 0 else comma) + json.dumps(key) + ":", False))
        pieces.append((space + json.dumps(value, ensure_ascii=False), True))
    pieces.append(("}", True))
    answer: Message = {"role": "assistant", "content": "".join(text for text, _ in pieces), "reasoning_content": ""}
    return Conversation(({"role": "user", "content": facts}, answer), masked=tuple(pieces))
