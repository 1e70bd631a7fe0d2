"""The error for a schema that the compiler rejects."""

from __future__ import annotations

import json
import re
from collections import abc
from typing import Any

from service.generation.formats.json_schema import escape, walk


def explain_rejection(schema: str, message: str) -> str:
    """Return the compiler's error message for a schema, with the keyword and its path if they can be found."""
    text = message.strip().splitlines()[0] if message.strip() else "the schema can't be compiled"
    parsed = json.loads(schema, parse_int=float)  # integers may have thousands of digits
    for keyword, value in _suspected_keywords(message):
        for pointer, subschema in walk(parsed):
            if keyword in subschema and (value is None or subschema[keyword] == value):
                return f"the keyword {keyword} at {pointer}/{escape(keyword)} can't be enforced: {text}"
    return text


def _suspected_keywords(message: str) -> abc.Iterator[tuple[str, Any]]:
    """Yield the keywords that the message may be about, each with its value, or None if the value is unknown."""
    if unimplemented := re.search(r"Unimplemented keys: \[(.*?)\]", message):
        for keyword in re.findall(r'"([^"]*)"', unimplemented[1]):
            yield keyword, None
    if unknown_format := re.search(r"Unknown format: (\S+)", message):
        yield "format", unknown_format[1]
    if pointer := re.search(r"Pointer '([^']*)' does not exist", message):
        yield "$ref", "#" + pointer[1]
    if unknown_type := re.search(r"Invalid type: (\S+)", message):
        yield "type", unknown_type[1]
    if "oneOf" in message:
        yield "oneOf", None
    if "regex parse error" in message:
        for line in message.splitlines():
            yield "pattern", line.strip()
