"""Tasks on strings: repeat, repeat several times, pick a word."""

from __future__ import annotations

from demo.corpus import vocabulary
from demo.corpus.conversation import Conversation, ask
from demo.corpus.draw import Draw
from demo.corpus.phrasebook import phrasings

ECHO = phrasings("strings", "echo")
TIMES = phrasings("strings", "times")
FIRST = phrasings("strings", "first")
LAST = phrasings("strings", "last")
SENTENCES = (
    "{who} {verb} the {adjective} {other}",
    "{who} {verb} a {other} in the {adjective} {noun}",
    "the {adjective} {noun} is here",
    "{who} and the {other} are {adjective}",
)
NUMERALS = ("two", "three", "four", "five")


def sentence(draw: Draw) -> str:
    """Return a short plain sentence of listed words."""
    noun, other = (draw.listed(vocabulary.WORDS) for _ in range(2))
    adjective, verb = draw.one(vocabulary.ADJECTIVES), draw.one(vocabulary.VERBS_PAST)
    who = draw.name() if draw.chance(0.5) else f"the {noun}"
    form = draw.one(SENTENCES)
    text = form.format(who=who, verb=verb, adjective=adjective, other=other, noun=noun)
    return text[:1].upper() + text[1:] + draw.one((".", ".", "", "!"))


def sayable(draw: Draw) -> str:
    """Return a text to repeat: words, a sentence, names, codes or numbers."""
    if draw.chance(0.06):
        return " ".join(draw.one((draw.foreign, draw.word, draw.name))() for _ in range(draw.random.randint(1, 4)))
    match draw.random.randrange(6):
        case 0 | 1:
            return " ".join(draw.words(1, 6))
        case 2:
            return sentence(draw)
        case 3:
            return ", ".join(draw.name() for _ in range(draw.random.randint(1, 4)))
        case 4:
            return " ".join(draw.code() for _ in range(draw.random.randint(1, 2)))
        case _:
            return draw.one((" ", ", ", "-", "; ")).join(
                str(draw.number(0, 9999)) for _ in range(draw.random.randint(1, 4))
            )


def echo(draw: Draw) -> Conversation:
    """Return a request to repeat a text."""
    text = sayable(draw)
    return ask(draw.say(ECHO, t=text), text, "I repeat the text.")


def several(draw: Draw) -> Conversation:
    """Return a request to repeat a word two to five times."""
    word, times = draw.word(), draw.random.randint(2, 5)
    spoken = draw.one((str(times), NUMERALS[times - 2]))
    return ask(draw.say(TIMES, t=word, k=spoken), " ".join([word] * times), f"I say it {times} times.")


def pick(draw: Draw) -> Conversation:
    """Return a request for the first or the last of some words."""
    words = draw.words(2, 6)
    ways, index = draw.one(((FIRST, 0), (LAST, -1)))
    return ask(draw.say(ways, t=" ".join(words)), words[index], "I look for that word.")
