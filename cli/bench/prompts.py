"""Prompts of random words with a given number of tokens."""

from __future__ import annotations

import random
from typing import Final

# With a leading space each is one token in the bundled tokenizer and in most others that were trained on English.
WORDS: Final = "the and of in to with that this your they what when here only are was can has for not you".split()  # noqa: SIM905 more readable


class Prompts:
    """A generator of prompts, reproducible by its seed. A word counts as one token until `calibrate` is called."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)  # noqa: S311  not for security
        self._tokens_per_word, self._template_tokens = 1.0, 0.0

    def words(self, num: int) -> str:
        """Return `num` words, each with a leading space."""
        return "".join(f" {word}" for word in self._draw.choices(WORDS, k=num))

    def calibrate(self, few: tuple[int, int], many: tuple[int, int]) -> None:
        """Derive tokens per word and the chat template's tokens from the (words, tokens) of two prompts."""
        self._tokens_per_word = (many[1] - few[1]) / (many[0] - few[0]) or 1.0
        self._template_tokens = few[1] - self._tokens_per_word * few[0]

    def prompt(self, num_tokens: int) -> str:
        """Return a prompt with `num_tokens` tokens including the template, and at least one word."""
        return self.words(max(1, round((num_tokens - self._template_tokens) / self._tokens_per_word)))
