"""Patterns of modules' names match what Python's regular expressions match, whatever their repetitions."""

from __future__ import annotations

import re
from random import Random

import pytest

from service.engine.models.checkpoint.module_pattern import ModulePattern

_PIECES = [*"ab1.()|^$_-", "(?:", r"\.", r"\d", r"\d+", ".*", ".+", "a?", "[ab]", "[^a]", "[a-b]+", r"\w*", ".*_proj"]


def test_patterns_match_as_regular_expressions_do() -> None:
    """Random patterns and names: PEFT asks whether the pattern matches the end of a name from a full stop on."""
    random = Random(5)
    num_fitting = 0
    for _ in range(4000):
        pattern = "".join(random.choice(_PIECES) for _ in range(random.randint(1, 8)))
        try:
            expected = re.compile(rf"(?:.*\.)?(?:{pattern})")
            re.compile(pattern)
        except re.error:
            with pytest.raises(ValueError, match="is no regular expression"):
                ModulePattern(pattern)
            continue
        ours = ModulePattern(pattern)
        for _ in range(4):
            name = "".join(random.choice("ab1._-") for _ in range(random.randint(0, 9)))
            assert ours.fits(name) == bool(expected.fullmatch(name)), (pattern, name)
            num_fitting += ours.fits(name)
    assert num_fitting > 100


@pytest.mark.parametrize("pattern", ["(a|a)" * 80 + "-", ".*" * 200 + "_", "(.*|.+|.?)" * 40 + "_"])
def test_ambiguous_patterns_end(pattern: str) -> None:
    """Python's matcher would try more ways than it could ever finish."""
    assert not ModulePattern(pattern).fits("a" * 500)


@pytest.mark.parametrize("pattern", ["(a+)+", "a{2}", "a*?", "(?i)a", "(?=a)", r"(a)\1", r"a\b", "(?P<n>a)", "a b"])
def test_other_syntax_is_rejected(pattern: str) -> None:
    """Repeated groups, references, look-ahead and flags are rejected with their position."""
    with pytest.raises(ValueError, match="has unsupported syntax at"):
        ModulePattern(pattern)
