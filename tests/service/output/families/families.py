"""Texts that models of each family write, and templates with their calls: as short as the family's rules allow.

Each case has an answer, its content, and its calls of `weather` and `ping` as name and parsed arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from service.generation.formats.constraint import ReasoningStart
from service.generation.outputs.events import Delta
from service.output.families.tool_families import SYNTAXES
from service.output.families.tool_syntax import ChannelCall, Schema, ToolSyntax
from service.output.parsers.channel_parser import ChannelParser
from service.output.parsers.tool_parser import ToolCallParser
from tests.service.output.fakes import join
from tests.service.output.families.keyword_calls import KEYWORD_FAMILIES
from tests.service.output.families.named_calls import NAMED_FAMILIES
from tests.service.output.families.object_calls import OBJECT_FAMILIES
from tests.service.output.families.tagged_calls import TAGGED_FAMILIES

FAMILIES = [*NAMED_FAMILIES, *TAGGED_FAMILIES, *OBJECT_FAMILIES, *KEYWORD_FAMILIES]

# The markers that are one token in the family's vocabulary.
_TOKEN = re.compile(
    r"</?[a-z:_]+>|<\|[^|]+\|>|\[[A-Z_]+\]|<\uff5c[^\uff5c]+\uff5c>|<\|[a-z_]+>|<[a-z_]+\|>|<\|\"\|>|\uff5cDSML\uff5c"
)
MARKERS = sorted({token for syntax in SYNTAXES.values() for text in syntax.markers for token in _TOKEN.findall(text)})

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "exact": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "where": {"$ref": "#/$defs/place"},
        "unit": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["city"],
    "$defs": {"place": {"type": "object"}},
}
FUNCTIONS: dict[str, Schema] = {"weather": PARAMETERS, "ping": {"type": "object", "properties": {}}}


def deltas_of(
    syntax: ToolSyntax, text: str, functions: Mapping[str, Schema] = FUNCTIONS, cuts: Iterable[int] = ()
) -> list[Delta]:
    """Return the deltas of the family's parser for a text that comes in parts."""
    is_channels = isinstance(syntax.payload, ChannelCall)
    parser = ChannelParser(functions, ReasoningStart.MAY_OPEN) if is_channels else ToolCallParser(syntax, functions)
    deltas: list[Delta] = []
    begin = 0
    for end in [*cuts, len(text)]:
        deltas += parser.feed(text[begin:end])
        begin = end
    return deltas + parser.close()


def read(
    syntax: ToolSyntax, text: str, functions: Mapping[str, Schema] = FUNCTIONS, cuts: Iterable[int] = ()
) -> tuple[str, str, list[tuple[str, str]]]:
    """Return the reasoning, the content and the calls in a text that comes in parts."""
    return join(deltas_of(syntax, text, functions, cuts))
