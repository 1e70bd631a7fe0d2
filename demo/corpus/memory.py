"""Remembering, turns later, what the user said; and what the system prompt said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from demo.corpus import vocabulary
from demo.corpus.arithmetic import one_digit
from demo.corpus.chat import small_talk
from demo.corpus.conversation import Conversation, ask
from demo.corpus.draw import Draw
from demo.corpus.facts import fact
from demo.corpus.phrasebook import Phrasings, phrasings


@dataclass(frozen=True)
class Matter:
    """Something a user may tell and ask for later."""

    thing: str
    value: Callable[[Draw], str]
    tell: Phrasings
    ask: Phrasings
    answer: str

    def told(self, draw: Draw, value: str) -> str:
        """The words that tell it."""
        return draw.say(self.tell, t=self.thing, v=value)

    def question(self, draw: Draw) -> str:
        """The words that ask for it."""
        return draw.say(self.ask, t=self.thing)

    def recalled(self, value: str) -> str:
        """The answer."""
        return self.answer.format(t=self.thing, v=value)


def _matter(entry: str, thing: str, value: Callable[[Draw], str], answer: str) -> Matter:
    return Matter(thing, value, phrasings("memory", f"{entry}.tell"), phrasings("memory", f"{entry}.ask"), answer)


def _liking(thing: str, value: Callable[[Draw], str]) -> Matter:
    return _matter("liking", thing, value, "Your {t} is {v}.")


def _owning(thing: str, value: Callable[[Draw], str]) -> Matter:
    return _matter("owning", thing, value, "The {t} is {v}.")


def _either(options: tuple[str, ...]) -> Callable[[Draw], str]:
    return lambda draw: draw.listed(options) if draw.chance(0.5) else draw.coined()


def _number(draw: Draw) -> str:
    return str(draw.number(2, 999))


NAME = _matter("name", "name", Draw.name, "Your name is {v}.")
MATTERS = (
    NAME,
    NAME,
    _liking("colour", _either(vocabulary.COLOURS)),
    _liking("color", _either(vocabulary.COLOURS)),
    _liking("city", Draw.name),
    _liking("animal", _either(vocabulary.ANIMALS)),
    _liking("food", _either(vocabulary.FOODS)),
    _liking("number", _number),
    _liking("job", _either(vocabulary.JOBS)),
    _liking("friend", Draw.name),
    _liking("word", Draw.word),
    _liking("dog", Draw.name),
    _owning("password", Draw.coined),
    _owning("code", Draw.code),
    _owning("secret word", Draw.word),
    _owning("room number", _number),
    _owning("key", Draw.code),
)
"""What may be told; a name is told twice as often as anything else."""


def recall(draw: Draw) -> Conversation:
    """Somebody tells one to three things, talks of something else, and asks for one of them."""
    matters: list[Matter] = []
    for matter in draw.some(MATTERS, draw.random.choice((1, 1, 2, 2, 3))):
        if matter not in matters:
            matters.append(matter)
    values = [matter.value(draw) for matter in matters]
    tells = [matter.told(draw, value) for matter, value in zip(matters, values, strict=True)]
    if draw.chance(0.5):
        tells = [" ".join(tells)]
    chosen = draw.random.randrange(len(matters))
    question, answer = matters[chosen].question(draw), matters[chosen].recalled(values[chosen])
    thought = f"The user said {values[chosen]}."
    if draw.chance(0.15):
        return ask(" ".join([*tells, question]), answer, thought)
    conversation = ask(tells[0], _noted(matters[0], values[0]), "The user tells me something.")
    for tell, matter, value in zip(tells[1:], matters[1:], values[1:], strict=False):
        conversation = conversation.then(ask(tell, _noted(matter, value), "The user tells me something."))
    for _ in range(draw.one((0, 0, 1, 1, 2))):
        conversation = conversation.then(draw.one((small_talk, fact, one_digit))(draw))
    return conversation.then(ask(question, answer, thought))


def long_recall(draw: Draw) -> Conversation:
    """The same over a long chat, so that distance does not matter."""
    matter = draw.one(MATTERS)
    value = matter.value(draw)
    conversation = ask(matter.told(draw, value), _noted(matter, value))
    for _ in range(draw.random.randint(6, 28)):
        conversation = conversation.then(draw.one((small_talk, fact, one_digit))(draw))
    return conversation.then(ask(matter.question(draw), matter.recalled(value), f"The user said {value}."))


def _noted(matter: Matter, value: str) -> str:
    if matter is NAME:
        return f"Nice to meet you, {value}!"
    return f"I will remember that: {value}."


def noting(draw: Draw) -> Conversation:
    """Somebody tells one thing; the answer takes note of it."""
    matter = draw.one(MATTERS)
    value = matter.value(draw)
    return ask(matter.told(draw, value), _noted(matter, value), "The user tells me something.")
