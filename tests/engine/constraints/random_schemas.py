"""Random JSON Schemas, each satisfiable by construction."""

from __future__ import annotations

import random
from typing import Any

Schema = dict[str, Any]

_VALUES = [1, "a", "é\n", None, True, [1, 2], {"k": "v"}, -2.5]
_CONSTANTS = ["<|im_end|>", "</tool_call>", 7, [], {"a": [None]}, '\\"']
_PATTERNS = ["^[a-f]{2,5}$", "^x+y?$", r"^\d{3}-\d{2}$", "^(ja|nein)$"]
_FORMATS = ["date", "ipv4", "uuid", "time"]
_NAMES = ["a", "b/c", "naïve", "d e", "<think>", "f"]


def random_schema(rng: random.Random, depth: int = 3) -> Schema:
    """Return a schema with at most `depth` further levels."""
    kinds = [
        _string,
        _integer,
        _number,
        _plain,
        *([_object, _object, _array, _tuple, _any_of, _all_of] if depth else []),
    ]
    return rng.choice(kinds)(rng, depth)


def _string(rng: random.Random, depth: int) -> Schema:
    shortest = rng.randrange(4)
    return rng.choice(
        [
            {"type": "string", "minLength": shortest, "maxLength": shortest + rng.randrange(6)},
            {"type": "string", "pattern": rng.choice(_PATTERNS)},
            {"type": "string", "format": rng.choice(_FORMATS)},
        ]
    )


def _integer(rng: random.Random, depth: int) -> Schema:
    low = rng.randrange(-500, 500)
    return {"type": "integer", "minimum": low, "maximum": low + rng.randrange(300)}


def _number(rng: random.Random, depth: int) -> Schema:
    low = rng.randrange(-50, 50)
    return {"type": "number", "minimum": low, "exclusiveMaximum": low + rng.randrange(1, 30)}


def _plain(rng: random.Random, depth: int) -> Schema:
    return rng.choice(
        [
            {"type": "boolean"},
            {"type": ["null", "boolean"]},
            {"const": rng.choice(_CONSTANTS)},
            {"enum": rng.sample(_VALUES, rng.randrange(1, 5))},
        ]
    )


def _object(rng: random.Random, depth: int) -> Schema:
    names = rng.sample(_NAMES, rng.randrange(5))
    schema: Schema = {
        "type": "object",
        "properties": {name: random_schema(rng, depth - 1) for name in names},
        "required": rng.sample(names, rng.randrange(len(names) + 1)),
    }
    if rng.random() < 0.3:
        schema["additionalProperties"] = rng.choice([False, random_schema(rng, 0)])
    return schema


def _array(rng: random.Random, depth: int) -> Schema:
    fewest = rng.randrange(3)
    items = random_schema(rng, depth - 1)
    return {"type": "array", "items": items, "minItems": fewest, "maxItems": fewest + rng.randrange(3)}


def _tuple(rng: random.Random, depth: int) -> Schema:
    items = [random_schema(rng, depth - 1) for _ in range(rng.randrange(1, 3))]
    return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}


def _any_of(rng: random.Random, depth: int) -> Schema:
    return {"anyOf": [random_schema(rng, depth - 1) for _ in range(2)]}


def _all_of(rng: random.Random, depth: int) -> Schema:
    first = {"type": "object", "properties": {"p": random_schema(rng, 0)}, "required": ["p"]}
    return {"allOf": [first, {"properties": {"q": random_schema(rng, 0)}, "required": ["q"]}]}
