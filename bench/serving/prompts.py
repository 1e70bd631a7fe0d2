"""Contents of chats of a known number of tokens, none with a beginning like another's."""

from __future__ import annotations

import random

# Each is one token after a space, in the bundled tokenizer and in any other that was trained on English.
WORDS = "the and of in to with that this your they what when here only are was can has for not you".split()  # noqa: SIM905 it reads as a sentence


def words(draw: random.Random, num: int) -> str:
    """So many random words, each with the space before it."""
    return "".join(f" {word}" for word in draw.choices(WORDS, k=num))
