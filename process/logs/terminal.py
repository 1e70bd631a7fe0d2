"""Remove or escape control characters of untrusted text before it is printed on a terminal."""

from __future__ import annotations

import re
from typing import Final

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_BUT_LAYOUT: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def plain(text: str) -> str:
    """Return the text without control characters other than line ends and tabs."""
    return _BUT_LAYOUT.sub("", text)


def escaped_text(text: str, kept: str = "") -> str:
    r"""Return the text with control characters, other than those in `kept`, escaped as in JSON: `\u001b`."""
    return _CONTROL.sub(lambda found: found[0] if found[0] in kept else f"\\u{ord(found[0]):04x}", text)
