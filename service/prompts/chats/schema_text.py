"""Describe the JSON of the answer to the model: the format's name, description and schema."""

from __future__ import annotations

from typing import Any

from service.generation.formats.output_format import JsonSchema

_BETWEEN = "\n\n"


def add_schema(turns: list[dict[str, Any]], schema: JsonSchema, *, takes_system: bool) -> None:
    """Append the schema to the system message, or to a new one if there is none.

    If the template doesn't show system messages, the schema precedes the first user message.
    """
    text = _text(schema)
    if not takes_system:
        first = next((turn for turn in turns if turn["role"] == "user"), turns[0])
        if isinstance(first["content"], list):  # a list of texts and images
            first["content"].insert(0, {"type": "text", "text": text + _BETWEEN})
        else:
            first["content"] = f"{text}{_BETWEEN}{first['content']}"
    elif turns[0]["role"] == "system":
        turns[0]["content"] += _BETWEEN + text
    else:
        turns.insert(0, {"role": "system", "content": text})


def _text(schema: JsonSchema) -> str:
    """Return the text that describes the answer's schema to the model."""
    parts = ["# Response format", f"## {schema.name}", schema.description]
    parts.append(f"The answer is JSON that matches this schema:\n{schema.schema}")
    return _BETWEEN.join(part for part in parts if part)
