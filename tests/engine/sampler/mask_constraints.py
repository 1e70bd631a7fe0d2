"""Constraints of output with a fixed mask, or that raise."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.engine.fake_constraint import FakeConstraint


class Panic(BaseException):
    """The kind of exception that Rust's panics become in Python."""


class Only(FakeConstraint):
    """A constraint that allows some tokens, or fails."""

    def __init__(self, *allowed: int, fails: type[BaseException] | None = None) -> None:
        self.allowed, self.fails = allowed, fails

    def fill_mask(self, mask: Any) -> None:
        if self.fails:
            raise self.fails("the grammar is lost")
        bits = np.zeros(32 * len(mask), dtype=np.uint8)
        bits[list(self.allowed)] = 1
        mask[:] = np.packbits(bits, bitorder="little").view(np.int32)
