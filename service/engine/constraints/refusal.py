"""The error for a schema that the compiler rejects."""

from __future__ import annotations

import json
import re
from collections import abc
from typing import Any

from service.generation.formats.json_schema import escape, walk


def blame(schema: str, refusal: str) -> str:
    """The compiler's `refusal` of a schema's JSON, with the keyword and its path where they can be found."""
    text = refusal.strip().splitlines()[0] if refusal.strip() else "the schema can't be compiled"
    parsed = json.loads(schema, parse_int=float)  # of thousands of digits too
    for keyword, value in _quarantine(refusal):
        for pointer, subschema in walk(parsed):
            if keyword in subschema and (value is None or subschema[keyword] == value):
                return f"the keyword {keyword} at {pointer}/{escape(keyword)} can't be enforced: {text}"
    return text


def _quarantine(refusal: str) -> abc.Iterator[tuple[str, Any]]:
    """Keywords that the refusal may speak of, with their values where it tells them."""
    if unimplemented := re.search(r"Unimplemented keys: \[(.*?)\]", refusal):
        for keyword in re.findall(r'"([^"]*)"', unimplemented[1]):
            yield keyword, None
    if unknown_format := re.search(r"Unknown format: (\S+)", refusal):
        yield "format", unknown_format[1]
    if pointer := re.search(r"Pointer '([^']*)' does not exist", refusal):
        yield "$ref", "#" + pointer[1]
    if unknown_type := re.search(r"Invalid type: (\S+)", refusal):
        yield "type", unknown_type[1]
    if "oneOf" in refusal:
        yield "oneOf", None
    if "regex parse error" in refusal:
        for line in refusal.splitlines():
            yield "pattern", line.strip()
