"""Sums of small numbers in words and digits, with the steps if reasoning is requested."""

from __future__ import annotations

from demo.corpus import vocabulary
from demo.corpus.conversation import Conversation, ask
from demo.corpus.draw import Draw
from demo.corpus.phrasebook import phrasings

PLUS = phrasings("arithmetic", "plus")
MINUS = phrasings("arithmetic", "minus")
TIMES = phrasings("arithmetic", "times")
GAINS = phrasings("arithmetic", "gains")
LOSSES = phrasings("arithmetic", "losses")
OPERATIONS = {"+": PLUS, "-": MINUS, "*": TIMES}


def result(a: int, sign: str, b: int) -> int:
    """Return the result of `a sign b`."""
    return {"+": a + b, "-": a - b, "*": a * b}[sign]


def steps(a: int, sign: str, b: int) -> str:
    """Return the reasoning of a sum: tens and ones separately if that helps."""
    total = result(a, sign, b)
    if sign == "*" or max(a, b) < 10:
        return f"{a} {sign} {b} = {total}."
    tens, ones = a // 10 * 10, a % 10
    other_tens, other_ones = b // 10 * 10, b % 10
    high, low = result(tens, sign, other_tens), result(ones, sign, other_ones)
    joined = f"{high} + {low}" if low >= 0 else f"{high} - {-low}"
    return f"{tens} {sign} {other_tens} = {high}. {ones} {sign} {other_ones} = {low}. {joined} = {total}."


def one_digit(draw: Draw) -> Conversation:
    """Return a sum, difference or product of two digits."""
    sign = draw.one("++--*")
    a, b = draw.random.randint(0, 9), draw.random.randint(0, 9)
    if sign == "-" and a < b:
        a, b = b, a
    return ask(draw.say(OPERATIONS[sign], a=a, b=b), f"{a} {sign} {b} = {result(a, sign, b)}", steps(a, sign, b))


def two_digits(draw: Draw) -> Conversation:
    """Return a sum or difference of numbers below a hundred."""
    sign = draw.one("+-")
    a, b = draw.number(2, 99), draw.number(2, 99)
    if sign == "-" and a < b:
        a, b = b, a
    return ask(draw.say(OPERATIONS[sign], a=a, b=b), f"{a} {sign} {b} = {result(a, sign, b)}", steps(a, sign, b))


def story(draw: Draw) -> Conversation:
    """Return a word problem of one or two sentences, about things gained or lost."""
    sign = draw.one("+-")
    a, b = draw.random.randint(1, 9), draw.random.randint(1, 9)
    if sign == "-" and a < b:
        a, b = b, a
    things = draw.listed(vocabulary.WORDS) + "s"
    problem = draw.say(GAINS if sign == "+" else LOSSES, n=draw.name(), a=a, b=b, t=things)
    return ask(problem, f"{a} {sign} {b} = {result(a, sign, b)}", steps(a, sign, b))
