"""Pieces of grammars in llguidance's dialect of Lark."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping


def quote(text: str) -> str:
    """A text as a literal: JSON's form of a string, but that Lark wants the character DEL escaped too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", r"\u007f")


def literal(text: str, token_ids: Mapping[str, int]) -> str:
    """A text with the control tokens in it, by `token_ids`, as tokens."""
    spelled = sorted((token for token in token_ids if token in text), key=len, reverse=True)
    if not spelled:
        return quote(text)
    parts = re.split("(" + "|".join(map(re.escape, spelled)) + ")", text)
    return " ".join(f"<[{token_ids[part]}]>" if part in token_ids else quote(part) for part in parts if part)


def any_of(texts: Iterable[str]) -> str:
    """A regular expression's part that matches any of them."""
    return f"({'|'.join(map(re.escape, texts))})"
