"""Terminals for strings that match a schema, as far as that is enforced in text that is not JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import llguidance

ANY_TEXT: Final = r"(.|\n)*"
_MAX_LENGTH: Final = 256  # a length limit is enforced up to this value


def text_terminal(schema: Any) -> str:
    """Return a terminal for the strings that match a schema."""
    if not isinstance(schema, Mapping):
        return f"/{ANY_TEXT}/"
    bounds = length_bounds(schema)
    terminal = rf"/(.|\n){bounds}/" if bounds else f"/{ANY_TEXT}/"
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        before = "" if pattern.startswith("^") else ANY_TEXT
        after = "" if pattern.endswith("$") and not pattern.endswith(r"\$") else ANY_TEXT
        inner = pattern.removeprefix("^").removesuffix("$" if not after else "")
        alone = f"/{llguidance.regex_to_lark(inner, '')}/"
        if llguidance.LLMatcher.validate_grammar(f"start: {alone}\n"):
            return f"{terminal} & {alone}"  # an invalid pattern may become valid with the text around it: use it alone
        terminal += f" & /{llguidance.regex_to_lark(f'{before}({inner}){after}', '')}/"
    return terminal


def length_bounds(schema: Mapping[str, Any]) -> str:
    """Return the repetition of a character that a schema's length limits allow; empty without enforced limits."""
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    least = least if isinstance(least, int) and least <= _MAX_LENGTH else 0
    bound = str(most) if isinstance(most, int) and most <= _MAX_LENGTH else ""
    return f"{{{least},{bound}}}" if least or bound else ""


def can_match(terminal: str) -> bool:
    """Return True if a terminal can be compiled."""
    return not llguidance.LLMatcher.validate_grammar(f"start: TEXT\nTEXT: {terminal}\n")
