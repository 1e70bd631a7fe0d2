"""Tool calls with names and arguments copied from unseen definitions, and answers from results."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from demo.corpus import vocabulary
from demo.corpus.chat import small_talk
from demo.corpus.conversation import Conversation, Message, call
from demo.corpus.draw import Draw, is_kept
from demo.corpus.facts import fact
from demo.corpus.phrasebook import Phrasings, book, phrasings
from demo.corpus.structured import spoken, typed_value

WISH = phrasings("tools", "wish")
BARE = phrasings("tools", "bare")
VALUE_WISH = {key: Phrasings.from_entry(entry) for key, entry in book("tools")["by"].items()}
"""Ways to ask for the value of one parameter, by its name."""

DESCRIPTIONS = tuple(book("tools")["descriptions"]["all"])
NAME_FORMS = ("{v}_{n}", "{v}_{m}_{n}", "{v}_{n}", "{v}{N}", "{n}_{v}", "{n}.{v}", "{v}-{n}")
MIDDLES = ("current", "all", "new", "my", "the", "one", "next", "last", "user", "stock", "full", "main")


@dataclass(frozen=True)
class Tool:
    """A coined tool: its name, parameters and definition."""

    verb: str
    noun: str
    name: str
    parameters: dict[str, dict[str, Any]]
    values: dict[str, Any]
    definition: dict[str, Any]


def coin_tool(draw: Draw, taken: set[str], keys: list[str] | None = None) -> Tool:
    """Return a tool whose name is on this side of the split and whose noun is not `taken`."""
    while True:
        verb, noun = draw.one(vocabulary.TOOL_VERBS), draw.one(vocabulary.TOOL_NOUNS)
        noun = draw.coined() if draw.chance(0.25) else noun
        middle = draw.one(MIDDLES)
        name = draw.one(NAME_FORMS).format(v=verb, n=noun, m=middle, N=noun.capitalize())
        if noun not in taken and is_kept(verb + noun) == draw.held_out:
            break
    taken.add(noun)
    if keys is None:
        keys = draw.some(vocabulary.PARAMETERS, draw.one((0, 1, 1, 1, 2, 2, 3)))
        keys = [draw.coined() if draw.chance(0.15) else key for key in keys]
    typed = {key: typed_value(draw, key) for key in keys}
    parameters = {key: kind for key, (_, kind) in typed.items()}
    properties = {key: _described(draw, key, kind) for key, kind in parameters.items()}
    spare = draw.one(vocabulary.PARAMETERS)
    if draw.chance(0.2) and spare not in properties:
        properties[spare] = _described(draw, spare, typed_value(draw, spare)[1])
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if draw.chance(0.6):
        schema["required"] = keys
    if draw.chance(0.15):
        schema["additionalProperties"] = False
    function: dict[str, Any] = {"name": name}
    if draw.chance(0.75):
        words = {"V": verb.capitalize(), "v": verb, "n": noun, "p": " and ".join(keys) or "default"}
        function["description"] = draw.one(DESCRIPTIONS).format(**words)
    function["parameters"] = schema
    values = {key: value for key, (value, _) in typed.items()}
    return Tool(verb, noun, name, parameters, values, {"type": "function", "function": function})


def _described(draw: Draw, key: str, kind: dict[str, Any]) -> dict[str, Any]:
    """Return `kind`, sometimes with a description; its example is never the wanted value."""
    if not draw.chance(0.25):
        return kind
    example = spoken(typed_value(draw, key)[0])
    words = (f"The {key}.", f"the {key}", key.capitalize(), f"The {key}, e.g. {example}", f"Name of the {key}")
    return {**kind, "description": draw.one(words)}


def _wish(draw: Draw, tool: Tool) -> str:
    verb = tool.verb
    first = next(iter(tool.values), "")
    if len(tool.values) == 1 and first in VALUE_WISH and draw.chance(0.7):
        return _capital(draw, draw.say(VALUE_WISH[first], v=verb, n=tool.noun, x=spoken(tool.values[first])))
    if not tool.values:
        return _capital(draw, draw.say(BARE, v=verb, n=tool.noun, t=tool.name))
    link = draw.one((" {} ", " {}: ", " {} = ", " {} "))
    clauses = [link.format(key.replace("_", " "))[1:] + spoken(value) for key, value in tool.values.items()]
    if draw.chance(0.2):
        draw.random.shuffle(clauses)
    joined = draw.one((" and ", ", ")).join(clauses)
    return _capital(draw, draw.say(WISH, v=verb, n=tool.noun, t=tool.name, p=joined))


def _capital(draw: Draw, text: str) -> str:
    return text[:1].upper() + text[1:] if draw.chance(0.8) else text


def _definitions(draw: Draw, tools: list[Tool]) -> tuple[dict[str, Any], ...]:
    shuffled = [tool.definition for tool in tools]
    draw.random.shuffle(shuffled)
    return tuple(shuffled)


def _coin_some(draw: Draw) -> list[Tool]:
    taken: set[str] = set()
    keys = [draw.one(tuple(VALUE_WISH))] if draw.chance(0.3) else None
    first = coin_tool(draw, taken, keys)
    return [first, *(coin_tool(draw, taken) for _ in range(draw.one((0, 0, 1, 1, 2, 3))))]


SYSTEMS = ("You are a helpful assistant.", "Use tools when they help.", "You are an assistant with tools.", "Be brief.")


def _start(draw: Draw) -> list[Message]:
    return [{"role": "system", "content": draw.one(SYSTEMS)}] if draw.chance(0.2) else []


def tool_call(draw: Draw) -> Conversation:
    """Return a conversation that calls one of one to four tools, sometimes two of them at once."""
    tools = _coin_some(draw)
    called = tools[:1]
    wish = _wish(draw, tools[0])
    if len(tools) > 1 and draw.chance(0.15):
        called = tools[:2]
        second = _wish(draw, tools[1])
        joined = f"{wish.rstrip('.?')} and then {second[:1].lower()}{second[1:]}"
        wish = joined if draw.chance(0.4) else f"{wish} {second}"
    calls = [call(tool.name, tool.values) for tool in called]
    messages = _start(draw)
    messages.append({"role": "user", "content": wish})
    thought = f"I should call {' and '.join(tool.name for tool in called)}."
    messages.append({"role": "assistant", "content": "", "reasoning_content": thought, "tool_calls": calls})
    return Conversation(tuple(messages), _definitions(draw, tools))


def no_tool(draw: Draw) -> Conversation:
    """Return a conversation with tools that needs none of them."""
    inner = draw.one((small_talk, small_talk, fact))(draw)
    return replace(inner, tools=_definitions(draw, _coin_some(draw)))


def tool_result(draw: Draw) -> Conversation:
    """Return a conversation in which the assistant states the result of a tool call."""
    before = tool_call(draw)
    asked = len(before.messages[-1]["tool_calls"])
    results, sentences = zip(*(_result(draw) for _ in range(asked)), strict=True)
    answer = " ".join(sentences)
    answers: list[Message] = [{"role": "tool", "content": result} for result in results]
    answers.append({"role": "assistant", "content": answer, "reasoning_content": "I tell the result."})
    return replace(before, messages=before.messages + tuple(answers))


def _result(draw: Draw) -> tuple[str, str]:
    """Return a tool's result and the sentence that states it."""
    form = draw.random.randrange(10)
    if form == 0:
        reason = " ".join(draw.words(1, 3))
        return json.dumps({"error": reason}), f"The tool reported an error: {reason}."
    if form <= 2:
        text = " ".join(draw.words(1, 4))
        return text, f"The result is: {text}."
    if form == 3:
        value = draw.number(0, 9999)
        return str(value), f"The result is: {value}."
    keys = draw.some([*vocabulary.PARAMETERS, *vocabulary.TOOL_NOUNS], draw.random.randint(1, 3))
    values = {key: typed_value(draw, key)[0] for key in keys}
    separators = draw.one(((", ", ": "), (", ", ": "), (",", ":")))
    parts = [f"the {key} is {spoken(value)}" for key, value in values.items()]
    sentence = parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
    return json.dumps(values, separators=separators, ensure_ascii=False), sentence[:1].upper() + sentence[1:] + "."
