"""How often each skill is practised, and the endless stream of conversations that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from demo.corpus import arithmetic, chat, completion, facts, memory, persona, strings, structured, tools
from demo.corpus.conversation import Conversation
from demo.corpus.draw import Draw

Skill = Callable[[Draw], Conversation]

WEIGHTS: tuple[tuple[Skill, float], ...] = (
    (chat.small_talk, 5),
    (chat.refusal, 5),
    (facts.fact, 8),
    (memory.recall, 9),
    (memory.noting, 2),
    (memory.long_recall, 0.7),
    (persona.upper, 4),
    (persona.one_word, 2.5),
    (persona.pirate, 2.5),
    (persona.decorated, 2.5),
    (persona.named, 2),
    (persona.plain, 1.5),
    (arithmetic.one_digit, 5),
    (arithmetic.two_digits, 6),
    (arithmetic.story, 3),
    (strings.echo, 5),
    (strings.several, 2),
    (strings.upper, 3),
    (strings.reverse, 3),
    (strings.count, 3),
    (strings.pick, 2),
    (structured.json_object, 9),
    (structured.unasked, 4),
    (tools.tool_call, 12),
    (tools.no_tool, 2),
    (tools.tool_result, 5),
    (completion.sentence, 2),
    (completion.counting, 2),
    (completion.listing, 3),
    (completion.pairing, 3),
    (completion.noise, 3),
)

CHAINABLE = (
    chat.small_talk,
    chat.refusal,
    facts.fact,
    memory.noting,
    arithmetic.one_digit,
    strings.echo,
    strings.several,
    strings.reverse,
)
"""Skills that may come before another in one chat."""


def converse(skill: Skill, draw: Draw) -> Conversation:
    """One conversation for `skill`: at times asked for with reasoning, at times after earlier talk."""
    conversation = skill(draw)
    if conversation.raw or conversation.masked:
        return conversation
    thought = conversation.messages[-1].get("reasoning_content")
    if thought and draw.chance(0.5 if skill in (arithmetic.two_digits, strings.count) else 0.2):
        conversation = replace(conversation, thinking=True)
    if conversation.messages[0]["role"] != "system" and not conversation.tools and skill is not memory.long_recall:
        while draw.chance(0.15):
            conversation = draw.one(CHAINABLE)(draw).then(conversation)
    return conversation


def conversations(seed: int) -> Iterator[Conversation]:
    """Training conversations without end; the same seed gives the same ones."""
    draw = Draw(seed)
    skills = [skill for skill, _ in WEIGHTS]
    weights = [weight for _, weight in WEIGHTS]
    while True:
        yield converse(draw.random.choices(skills, weights)[0], draw)
