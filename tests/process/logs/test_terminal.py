"""Untrusted text for a terminal."""

from __future__ import annotations

import json

import pytest

from process.logs.terminal import escaped_text, plain

CONTROL = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0)]))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("two\nlines\tGrüße 世界 🌍", "two\nlines\tGrüße 世界 🌍"),
        ("\x1b[2J\x1b]0;owned\x07a\x9b31mb\r\n\x7f\x08", "[2J]0;owneda31mb\n"),
        (CONTROL, "\t\n"),
    ],
)
def test_control_characters_are_removed(text: str, left: str) -> None:
    """C0, C1 and DEL are removed, except line ends and tabs."""
    assert plain(text) == left


def test_escaped_text_is_one_line_of_json() -> None:
    """Nothing is lost."""
    assert json.loads(f'"{escaped_text(CONTROL)}"') == CONTROL
    assert escaped_text("a\nb", kept="\n") == "a\nb"
