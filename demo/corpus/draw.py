"""Random choices on either side of the split between training and evaluation.

Names, words and numbers are on a side by a hash of their text, phrasings by their list, so the sides are disjoint for
all seeds.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Sequence
from typing import TypeVar

from demo.corpus import vocabulary
from demo.corpus.phrasebook import Phrasings, all_kept, words

T = TypeVar("T")

SCRIPTS = words("scripts")
ONSETS = words("onsets")
VOWELS = words("vowels")
CODAS = ("", "", "", *words("codas"))
ALTERNATIVES = re.compile(r"\[([^\]]*)\]")


def is_kept(text: str) -> bool:
    """Return True if a name, word or number belongs to the evaluation, as one in eight does."""
    return zlib.crc32(text.encode()) % 8 == 0


class Draw:
    """Random choices on one side of the split."""

    def __init__(self, seed: int, *, held_out: bool = False) -> None:
        self.random = random.Random(seed)
        self.held_out = held_out

    def chance(self, share: float) -> bool:
        """Return True with the probability `share`."""
        return self.random.random() < share

    def one(self, options: Sequence[T]) -> T:
        """Return any of `options`, regardless of the side."""
        return self.random.choice(options)

    def some(self, options: Sequence[T], count: int) -> list[T]:
        """Return `count` different ones of `options`, regardless of the side."""
        return self.random.sample(options, count)

    def say(self, ways: Phrasings, **values: object) -> str:
        """Return one phrasing of this side, filled in. Alternatives never yield a held-out phrasing."""
        text = self.one(ways.kept) if self.held_out else self._spelled(self.one(ways.seen))
        while not self.held_out and text in all_kept():
            text = self._spelled(self.one(ways.seen))
        return text.format(**values) if values else text

    def listed(self, options: Sequence[str]) -> str:
        """Return one of `options` of this side."""
        while True:
            option = self.one(options)
            if is_kept(option) == self.held_out:
                return option

    def _spelled(self, pattern: str) -> str:
        return ALTERNATIVES.sub(lambda found: self.one(found[1].split("|")), pattern)

    def coined(self) -> str:
        """Return a coined lower-case word of this side; in training, half of them are made of pieces of listed words.

        The pieces are not syllables, so that copying is learned for any sequence of tokens that spells a word. They
        may be from words of either side, but the result is never a word of the other side.
        """
        while True:
            if self.held_out or self.chance(0.5):
                count = self.one((1, 2, 2, 2, 3))
                word = "".join(self.one(ONSETS) + self.one(VOWELS) + self.one(CODAS) for _ in range(count))
            else:
                word = "".join(self._piece() for _ in range(self.one((1, 2, 2, 3))))
            if len(word) > 2 and is_kept(word) == self.held_out:
                return word

    def _piece(self) -> str:
        """Return one to six letters of a listed word or name, regardless of the side."""
        word = self.one(vocabulary.WORDS if self.chance(0.7) else vocabulary.NAMES).lower()
        start = self.random.randrange(len(word))
        return word[start : start + self.random.randint(1, 6)]

    def name(self) -> str:
        """Return a person's or place's name, coined or listed."""
        if self.chance(0.3 if self.held_out else 0.2):
            return self.listed(vocabulary.NAMES)
        while True:
            name = self.coined().capitalize()
            if is_kept(name) == self.held_out:
                return name

    def word(self) -> str:
        """Return a lower-case word, listed or coined."""
        return self.listed(vocabulary.WORDS) if self.chance(0.6 if self.held_out else 0.4) else self.coined()

    def foreign(self) -> str:
        """Return a word in another script, or of signs; both sides share these."""
        script = self.one(SCRIPTS)
        return "".join(self.one(script) for _ in range(self.random.randint(1, 4)))

    def words(self, low: int, high: int) -> list[str]:
        """Return between `low` and `high` different words."""
        count = self.random.randint(low, high)
        found: list[str] = []
        while len(found) < count:
            word = self.word()
            if word not in found:
                found.append(word)
        return found

    def number(self, low: int, high: int) -> int:
        """Return a number of this side between `low` and `high`; numbers below 20 are on both sides."""
        while True:
            number = self.random.randint(low, high)
            if number < 20 or is_kept(str(number)) == self.held_out:
                return number

    def code(self) -> str:
        """Return an identifier like `QX-4071`."""
        letters = "".join(self.one("ABCDEFGHJKLMNPQRSTUVWXYZ") for _ in range(self.random.randint(1, 3)))
        return f"{letters}{self.one(('-', '', '_'))}{self.number(10, 9999)}"
