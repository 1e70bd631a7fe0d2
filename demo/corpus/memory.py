"""Recall, turns later, of statements by the user and in the system prompt."""

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
    """A fact that a user may state and ask for later."""

    thing: str
    value: Callable[[Draw], str]
    statements: Phrasings
    ask: Phrasings
    answer: str

    def statement(self, draw: Draw, value: str) -> str:
        """Return a sentence that states it."""
        return draw.say(self.statements, t=self.thing, v=value)

    def question(self, draw: Draw) -> str:
        """Return a question for it."""
        return draw.say(self.ask, t=self.thing)

    def recalled(self, value: str) -> str:
        """Return the answer to the question."""
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
"""The facts that a user may state; names are stated twice as often as the others."""


def recall(draw: Draw) -> Conversation:
    """Return a chat in which the user states one to three facts, changes the subject, and asks for one of them."""
    matters: list[Matter] = []
    for matter in draw.some(MATTERS, draw.random.choice((1, 1, 2, 2, 3))):
        if matter not in matters:
            matters.append(matter)
    values = [matter.value(draw) for matter in matters]
    statements = [matter.statement(draw, value) for matter, value in zip(matters, values, strict=True)]
    if draw.chance(0.5):
        statements = [" ".join(statements)]
    chosen = draw.random.randrange(len(matters))
    question, answer = matters[chosen].question(draw), matters[chosen].recalled(values[chosen])
    thought = f"The user said {values[chosen]}."
    if draw.chance(0.15):
        return ask(" ".join([*statements, question]), answer, thought)
    conversation = ask(statements[0], _noted(matters[0], values[0]), "The user tells me something.")
    for statement, matter, value in zip(statements[1:], matters[1:], values[1:], strict=False):
        conversation = conversation.then(ask(statement, _noted(matter, value), "The user tells me something."))
    for _ in range(draw.one((0, 0, 1, 1, 2))):
        conversation = conversation.then(draw.one((small_talk, fact, one_digit))(draw))
    return conversation.then(ask(question, answer, thought))


def long_recall(draw: Draw) -> Conversation:
    """Return a recall over a long chat, which teaches independence of the distance."""
    matter = draw.one(MATTERS)
    value = matter.value(draw)
    conversation = ask(matter.statement(draw, value), _noted(matter, value))
    for _ in range(draw.random.randint(6, 28)):
        conversation = conversation.then(draw.one((small_talk, fact, one_digit))(draw))
    return conversation.then(ask(matter.question(draw), matter.recalled(value), f"The user said {value}."))


def _noted(matter: Matter, value: str) -> str:
    if matter is NAME:
        return f"Nice to meet you, {value}!"
    return f"I will remember that: {value}."


def noting(draw: Draw) -> Conversation:
    """Return an exchange in which the user states a fact and the answer acknowledges it."""
    matter = draw.one(MATTERS)
    value = matter.value(draw)
    return ask(matter.statement(draw, value), _noted(matter, value), "The user tells me something.")
