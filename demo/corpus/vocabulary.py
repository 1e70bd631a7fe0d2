"""The word lists of the corpus. A hash of each word decides on its side of the split."""

from __future__ import annotations

from demo.corpus.phrasebook import words

NAMES = words("names")
WORDS = words("words")
ADJECTIVES = words("adjectives")
VERBS_PAST = words("verbs_past")
COLOURS = words("colours")
ANIMALS = words("animals")
FOODS = words("foods")
JOBS = words("jobs")
TOPICS = words("topics")
TOOL_VERBS = words("tool_verbs")
TOOL_NOUNS = words("tool_nouns")
PARAMETERS = words("parameters")

NUMERIC = frozenset(words("numeric"))
"""Parameters that are integers; the others are strings unless a schema says otherwise."""
