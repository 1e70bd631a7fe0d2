"""Greetings, small talk about the service, and requests beyond a small demo model."""

from __future__ import annotations

from dataclasses import dataclass

from demo.corpus import vocabulary
from demo.corpus.conversation import Conversation, ask
from demo.corpus.draw import Draw
from demo.corpus.phrasebook import Phrasings, book, phrasings

REFUSAL = "I am only a small demo model, so I cannot help with that."


@dataclass(frozen=True)
class Intent:
    """An intent in small talk, and the answers to it."""

    ways: Phrasings
    answers: tuple[str, ...]
    thought: str


INTENTS = tuple(
    Intent(Phrasings.from_entry(entry), tuple(entry["answers"]), entry["thought"])
    for entry in book("small_talk").values()
)
WANTS = phrasings("refusals", "wants")
UNKNOWN = phrasings("refusals", "unknown")


def small_talk(draw: Draw) -> Conversation:
    """Return a greeting, thanks, or a question about the model itself."""
    intent = draw.one(INTENTS)
    return ask(draw.say(intent.ways), draw.one(intent.answers), intent.thought, accepted=intent.answers)


def refusal(draw: Draw) -> Conversation:
    """Return a request beyond a small model, or a question about something coined."""
    if draw.chance(0.6):
        topic, other = (draw.listed(vocabulary.TOPICS) for _ in range(2))
        wish = draw.say(WANTS, t=topic, u=other)
    else:
        wish = draw.say(UNKNOWN, n=draw.coined().capitalize(), w=draw.coined())
    return ask(wish, REFUSAL, "That is more than a small demo model can do.")
