"""Following the system prompt: upper case, one word, a pirate, a given name, a fixed ending."""

from __future__ import annotations

from collections.abc import Callable

from demo.corpus.arithmetic import one_digit
from demo.corpus.chat import small_talk
from demo.corpus.conversation import Conversation, ask
from demo.corpus.draw import Draw
from demo.corpus.facts import fact, shaped_fact
from demo.corpus.phrasebook import phrasings
from demo.corpus.strings import echo

UPPER = phrasings("persona", "upper")
ONE_WORD = phrasings("persona", "one_word")
PIRATE = phrasings("persona", "pirate")
ENDING = phrasings("persona", "ending")
BEGINNING = phrasings("persona", "beginning")
NAMED = phrasings("persona", "named")
WHO = phrasings("persona", "who")
PLAIN = phrasings("persona", "plain").seen


def upper(draw: Draw) -> Conversation:
    """Return a short fact, or small talk, in capitals."""
    system = draw.say(UPPER)
    if draw.chance(0.7):
        return shaped_fact(draw, system, lambda bare, _: bare.upper())
    return _reshaped(small_talk(draw), system, str.upper)


def one_word(draw: Draw) -> Conversation:
    """Return a fact with a one-word answer."""
    return shaped_fact(draw, draw.say(ONE_WORD), lambda bare, _: bare)


def pirate(draw: Draw) -> Conversation:
    """Return a fact, or small talk, in the manner of a pirate."""
    system = draw.say(PIRATE)
    if draw.chance(0.7):
        return shaped_fact(draw, system, lambda _, sentence: f"Arr! {sentence}")
    return _reshaped(small_talk(draw), system, lambda text: f"Arr! {text}")


def decorated(draw: Draw) -> Conversation:
    """Return a chat with a given word before or after the answer."""
    word = draw.word()
    inner = draw.one((fact, small_talk, one_digit))(draw)
    if draw.chance(0.5):
        return _reshaped(inner, draw.say(ENDING, w=word), lambda text: f"{text} {word}")
    return _reshaped(inner, draw.say(BEGINNING, w=word), lambda text: f"{word} {text}")


def named(draw: Draw) -> Conversation:
    """Return a chat in which the model has a given name."""
    name = draw.name()
    return ask(draw.say(WHO), f"I am {name}.", f"My name is {name}.", system=draw.say(NAMED, n=name))


def plain(draw: Draw) -> Conversation:
    """Return a chat with a system prompt that has no effect."""
    return _reshaped(draw.one((fact, small_talk, one_digit, echo))(draw), draw.one(PLAIN), str)


def _reshaped(conversation: Conversation, system: str, shape: Callable[[str], str]) -> Conversation:
    user, answer = conversation.messages[-2:]
    accepted = [shape(text) for text in conversation.accepted]
    return ask(
        user["content"], shape(answer["content"]), "I must follow the system prompt.", system=system, accepted=accepted
    )
