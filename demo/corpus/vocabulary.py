"""Word lists the corpus draws from. Plain data; it does not know the split, which a hash decides."""

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
