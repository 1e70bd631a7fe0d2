"""The frequencies of the skills, and the endless stream of conversations drawn by them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from demo.corpus import arithmetic, chat, completion, facts, memory, persona, strings, structured, tools
from demo.corpus.conversation import Conversation
from demo.corpus.draw import Draw

Skill = Callable[[Draw], Conversation]

WEIGHTS: tuple[tuple[Skill, float], ...] = (
    (chat.small_talk, 10),
    (chat.refusal, 5),
    (facts.fact, 9),
    (memory.recall, 13),
    (memory.noting, 2),
    (memory.long_recall, 0.8),
    (persona.upper, 5),
    (persona.one_word, 2),
    (persona.pirate, 2.5),
    (persona.decorated, 12),
    (persona.named, 7),
    (persona.plain, 1),
    (arithmetic.one_digit, 10),
    (arithmetic.two_digits, 6),
    (arithmetic.story, 1),
    (strings.echo, 8),
    (strings.several, 7),
    (strings.pick, 4),
    (structured.json_object, 15),
    (structured.unasked, 3),
    (tools.tool_call, 14),
    (tools.no_tool, 3),
    (tools.tool_result, 3),
    (completion.sentence, 1.5),
    (completion.counting, 1),
    (completion.listing, 3),
    (completion.pairing, 2.5),
    (completion.noise, 1.5),
)

CHAINABLE = (
    chat.small_talk,
    chat.refusal,
    facts.fact,
    memory.noting,
    arithmetic.one_digit,
    strings.echo,
    strings.several,
)
"""Skills that may come before another in one chat."""


def converse(skill: Skill, draw: Draw) -> Conversation:
    """Return one conversation for `skill`, sometimes with reasoning, sometimes after other turns."""
    conversation = skill(draw)
    if conversation.raw or conversation.masked:
        return conversation
    thought = conversation.messages[-1].get("reasoning_content")
    if thought and draw.chance(0.5 if skill is arithmetic.two_digits else 0.2):
        conversation = replace(conversation, thinking=True)
    if conversation.messages[0]["role"] != "system" and not conversation.tools and skill is not memory.long_recall:
        while draw.chance(0.15):
            conversation = draw.one(CHAINABLE)(draw).then(conversation)
    return conversation


def conversations(seed: int) -> Iterator[Conversation]:
    """Yield training conversations without end; the same seed gives the same conversations."""
    draw = Draw(seed)
    skills = [skill for skill, _ in WEIGHTS]
    weights = [weight for _, weight in WEIGHTS]
    while True:
        yield converse(draw.random.choices(skills, weights)[0], draw)
