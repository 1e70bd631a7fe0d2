"""Plain text without a template: sentences to be completed, counting, and copying for its own sake."""

from __future__ import annotations

from demo.corpus.conversation import Conversation
from demo.corpus.draw import Draw
from demo.corpus.facts import NEXT, TABLES, stated

END = "<|endoftext|>"


def _given(text: str, cut: int, *, end: str = END) -> Conversation:
    """Return `text`, taught from character `cut` on."""
    return Conversation(raw=((text[:cut], False), (text[cut:] + end, True)))


def _number(draw: Draw) -> str:
    return str(draw.number(0, 999))


def _long_number(draw: Draw) -> str:
    return str(draw.number(0, 9999))


def sentence(draw: Draw) -> Conversation:
    """Return a stated fact, given up to about its last word."""
    kind = draw.one([kind for kind in TABLES if kind.answer != "{b}"])
    row = draw.one(kind.rows)
    text = stated(kind, row)
    return _given(text, text.rindex(f" {row[1]}"))


def counting(draw: Draw) -> Conversation:
    """Return numbers, days or months in order; the first number determines the side."""
    if draw.chance(0.6):
        first, step = draw.number(0, 60), draw.one((1, 1, 1, 2, 5, 10))
        items = [str(first + step * i) for i in range(draw.random.randint(6, 8))]
    else:
        names = [row[0] for row in NEXT.rows[: 7 if draw.chance(0.5) else 19]][-12:]
        names = names if len(names) == 7 else [row[0] for row in NEXT.rows[7:]]
        start = draw.random.randrange(len(names))
        items = [names[(start + i) % len(names)] for i in range(6)]
    text = ", ".join(items)
    return _given(text, len(", ".join(items[:3])))


def listing(draw: Draw) -> Conversation:
    """Return a list and its repetition, which is taught."""
    kinds = (Draw.word, Draw.name, Draw.code, _long_number)
    items = [draw.one(kinds)(draw) for _ in range(draw.random.randint(3, 9))]
    link = draw.one((", ", " ", "\n", " | ", "; ", '", "'))
    once = link.join(items)
    return Conversation(raw=((once + "\n\n" + items[0], False), (once[len(items[0]) :] + END, True)))


def pairing(draw: Draw) -> Conversation:
    """Return pairs in one order, then their values in another."""
    keys = draw.words(2, 6)
    values = [draw.one((Draw.word, Draw.name, _number))(draw) for _ in keys]
    link, stop = draw.one(((": ", "\n"), (" is ", ". "), (" = ", "; "), ('": "', '", "'), ('": ', ', "')))
    pairs = list(zip(keys, values, strict=True))
    once = stop.join(f"{key}{link}{value}" for key, value in pairs)
    pieces = [(once, False)]
    draw.random.shuffle(pairs)
    for key, value in pairs:
        tight = link.rstrip(" ")
        pieces += [(f"{stop}{key}{tight}", False), (link[len(tight) :] + value, True)]
    return Conversation(raw=(*pieces, (stop + END, False)))


def noise(draw: Draw) -> Conversation:
    """Return up to forty random words, repeated after a mark."""
    kinds = (*[Draw.coined] * 3, *[Draw.word] * 3, Draw.foreign)
    words = [draw.one(kinds)(draw) for _ in range(draw.random.randint(5, 24))]
    link = draw.one((" ", ", ", "_", '", "'))
    once = link.join(words)
    return Conversation(raw=((once + "\n" + words[0], False), (once[len(words[0]) :] + END, True)))
