"""Prompts of random words, as long as is asked for."""

from __future__ import annotations

import random
from typing import Final

# Each is one token after a space, in the bundled tokenizer and in most others that were trained on English.
WORDS: Final = "the and of in to with that this your they what when here only are was can has for not you".split()  # noqa: SIM905 it reads as a sentence


class Prompts:
    """The same seed makes the same prompts. A word counts as a token until `learn` has told more."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)  # noqa: S311  it guards nothing
        self._per_word, self._around = 1.0, 0.0

    def words(self, num: int) -> str:
        """So many, each with the space before it."""
        return "".join(f" {word}" for word in self._draw.choices(WORDS, k=num))

    def learn(self, few: tuple[int, int], many: tuple[int, int]) -> None:
        """By two prompts' (words, tokens as the server counts): what a word is, and what the chat template adds."""
        self._per_word = (many[1] - few[1]) / (many[0] - few[0]) or 1.0
        self._around = few[1] - self._per_word * few[0]

    def prompt(self, num_tokens: int) -> str:
        """One of that many tokens, all told; of one word, where the template alone has as many."""
        return self.words(max(1, round((num_tokens - self._around) / self._per_word)))
