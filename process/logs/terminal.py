"""Escape control characters in foreign text before it is printed on a terminal."""

from __future__ import annotations

import re
from typing import Final

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_BUT_LAYOUT: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def plain(text: str) -> str:
    """The text without control characters but line ends and tabs."""
    return _BUT_LAYOUT.sub("", text)


def spelled(text: str, kept: str = "") -> str:
    r"""The text with its control characters but those in `kept` written as `\u001b`, as JSON has them."""
    return _CONTROL.sub(lambda found: found[0] if found[0] in kept else f"\\u{ord(found[0]):04x}", text)
