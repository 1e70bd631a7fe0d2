"""The corpus: repeatable, split in two sides that never meet, and right in what it says."""

import json
import re
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from demo.corpus import arithmetic, memory, strings, structured, tools, vocabulary
from demo.corpus.conversation import Conversation, segments
from demo.corpus.draw import Draw, is_kept
from demo.corpus.mixture import CHAINABLE, WEIGHTS, conversations
from demo.corpus.phrasebook import FOLDER, Phrasings, all_kept, book


def text_of(conversation: Conversation) -> str:
    """All that is written in a conversation."""
    return "".join(text for text, _ in segments(conversation))


def test_conversations_follow_their_seed() -> None:
    """The same seed gives the same conversations, another seed others."""
    first, again, other = ([text_of(c) for c in islice(conversations(seed), 200)] for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_conversations_practise_every_skill() -> None:
    """Each skill gives a conversation that teaches something, on both sides of the split."""
    for skill, weight in WEIGHTS:
        assert weight > 0
        for held_out in (False, True):
            pieces = segments(skill(Draw(3, held_out=held_out)))
            assert any(taught and text for text, taught in pieces), skill


@pytest.mark.parametrize("make", [Draw.name, Draw.word, Draw.coined], ids=["name", "word", "coined"])
def test_draw_sides_never_meet(make: Callable[[Draw], str]) -> None:
    """A name or word of the evaluation is never drawn for training, whatever the seeds."""
    seen, kept = Draw(1), Draw(2, held_out=True)
    assert not {make(seen) for _ in range(3000)} & {make(kept) for _ in range(3000)}


def test_draw_keeps_numbers_apart_from_twenty() -> None:
    """Numbers of two digits and more are on one side only; the smallest belong to both."""
    seen, kept = ({Draw(seed, held_out=side).number(20, 999) for seed in range(2000)} for side in (False, True))
    assert not seen & kept
    assert {Draw(seed, held_out=True).number(0, 5) for seed in range(100)} == set(range(6))


def entries(table: dict[str, Any]) -> list[dict[str, Any]]:
    """Every entry with phrasings below `table`."""
    if "seen" in table:
        return [table]
    return [entry for value in table.values() if isinstance(value, dict) for entry in entries(value)]


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.toml") if path.stem != "words"))
def test_phrasings_are_on_one_side(name: str) -> None:
    """No phrasing is both seen and kept, none is listed twice, and no alternative comes out as one that is kept."""
    found = entries(book(name))
    assert found
    draw = Draw(3)
    for entry in found:
        both = entry["seen"] + entry["kept"]
        assert len(set(both)) == len(both)
        assert not any(set("[|]") & set(text) for text in entry["kept"])
        said = {draw.say(Phrasings.from_entry(entry)) for _ in range(2000)}
        assert not said & all_kept()
        assert not any(set("[|]") & set(text) for text in said)


def test_tools_of_the_evaluation_are_unseen() -> None:
    """A tool's verb and noun meet on one side only, so its name is new to the model."""
    for held_out in (False, True):
        draw = Draw(5, held_out=held_out)
        coined = [tools.coin_tool(draw, set()) for _ in range(300)]
        assert all(is_kept(tool.verb + tool.noun) == held_out for tool in coined)


def test_vocabulary_lists_have_both_sides() -> None:
    """Lists that a side draws from hold words of that side, or drawing would never end."""
    for words in (vocabulary.NAMES, vocabulary.WORDS, vocabulary.COLOURS, vocabulary.ANIMALS, vocabulary.FOODS,
                  vocabulary.JOBS, vocabulary.TOPICS):  # fmt: skip
        assert {is_kept(word) for word in words} == {True, False}


@pytest.mark.parametrize("held_out", [False, True])
def test_sums_are_right(held_out: bool) -> None:  # noqa: FBT001  the two sides
    """The answer equals the sum it states, and so does every step of the reasoning."""
    draw = Draw(4, held_out=held_out)
    for skill in (arithmetic.one_digit, arithmetic.two_digits, arithmetic.story):
        for _ in range(100):
            answer = skill(draw).messages[-1]
            for line in re.split(r"\. ?", answer["content"] + ". " + answer["reasoning_content"]):
                left, _, right = line.partition(" = ")
                if left:
                    first, sign, second = left.split()
                    assert arithmetic.result(int(first), sign, int(second)) == int(right)


def test_memory_asks_for_a_stated_fact() -> None:
    """The value in the last answer was said by the user before."""
    draw = Draw(6)
    for _ in range(200):
        conversation = memory.recall(draw)
        value = conversation.messages[-1]["content"].removesuffix(".").rpartition(" is ")[2]
        statements = " ".join(message["content"] for message in conversation.messages if message["role"] == "user")
        assert value in statements


def test_string_jobs_are_done() -> None:
    """Repeated and picked words are those of the request."""
    draw = Draw(7)
    for _ in range(100):
        wish, answer = strings.several(draw).messages
        assert set(answer["content"].split()) <= set(re.findall(r"\w+", wish["content"]))
        wish, answer = strings.pick(draw).messages
        assert answer["content"] in wish["content"]


def test_tool_calls_copy_from_the_conversation() -> None:
    """The called names are defined, required arguments are given, and every value was said by the user."""
    draw = Draw(8)
    for _ in range(200):
        conversation = tools.tool_call(draw)
        defined = {tool["function"]["name"]: tool["function"] for tool in conversation.tools}
        said = conversation.messages[-2]["content"]
        for tool_call in conversation.messages[-1]["tool_calls"]:
            function = defined[tool_call["function"]["name"]]
            arguments = json.loads(tool_call["function"]["arguments"])
            assert set(function["parameters"].get("required", ())) <= set(arguments)
            assert set(arguments) <= set(function["parameters"]["properties"])
            assert all(structured.spoken(value) in said for value in arguments.values())


def test_json_answers_parse() -> None:
    """Every JSON answer is an object."""
    draw = Draw(9)
    for skill in (structured.json_object, structured.unasked):
        for _ in range(100):
            assert isinstance(json.loads(skill(draw).messages[-1]["content"]), dict)


def test_earlier_answers_do_not_teach_their_first_word() -> None:
    """An earlier turn has no think block before it; to teach its beginning would teach to skip thinking."""
    draw = Draw(10)
    for skill in CHAINABLE:
        pieces = segments(skill(draw).then(skill(draw)))
        opening = pieces.index(("<|im_start|>assistant\n", False))
        assert pieces[opening + 1][1] is False
