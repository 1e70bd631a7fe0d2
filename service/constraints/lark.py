"""Pieces of grammars in llguidance's dialect of Lark."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final

SPACE: Final = r"/[ \t\r\n]{1,16}/?"
"""White space that may be missing, bounded for a model that repeats it."""


def quote(text: str) -> str:
    """Return a text as a literal: a JSON string in which the character DEL is escaped too, as Lark requires."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", r"\u007f")


def literal(text: str, token_ids: Mapping[str, int]) -> str:
    """Return a literal for a text in which the control tokens of `token_ids` are tokens."""
    special_texts = sorted((token for token in token_ids if token in text), key=len, reverse=True)
    if not special_texts:
        return quote(text)
    parts = re.split("(" + "|".join(map(re.escape, special_texts)) + ")", text)
    return " ".join(f"<[{token_ids[part]}]>" if part in token_ids else quote(part) for part in parts if part)


def spaced(text: str) -> str:
    """Return the body of a rule for a text whose white space may be missing."""
    parts = [part for part in re.split(r"(\s+)", text) if part]
    return " ".join(f"{quote(part)}?" if part.isspace() else quote(part) for part in parts) or quote("")


def any_of(texts: Iterable[str]) -> str:
    """Return a group of a regular expression that matches any of the texts."""
    return f"({'|'.join(map(re.escape, texts))})"
