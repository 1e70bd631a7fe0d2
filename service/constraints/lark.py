"""Pieces of grammars in llguidance's dialect of Lark."""

from __future__ import annotations

import json
from collections.abc import Mapping


def quote(text: str) -> str:
    """A text as a literal: JSON's form of a string, but that Lark wants the character DEL escaped too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", r"\u007f")


def marker(text: str, token_ids: Mapping[str, int]) -> str:
    """A marker as the single token that it is by `token_ids`, or as a literal."""
    return f"<[{token_ids[text]}]>" if text in token_ids else quote(text)
