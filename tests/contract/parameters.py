"""The table of parameters: for each, a property of answers with it that answers without it lack.

The properties depend on the parameters only, not on the model's knowledge: biases of 100 determine its text. For random
answers they allow 25 capitals, all but the one of "I am", so the answer varies however well the model has learned.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import jsonschema

from service.engine.tokens.tokenizer import FastTokenizer
from tests.contract.transports import Answer, Fields

TOKENIZER = FastTokenizer.from_folder(Path(__file__).resolve().parents[2] / "demo" / "model")
GREEDY: Fields = {"temperature": 0, "max_tokens": 16, "ignore_eos": True}


def token_id(text: str) -> int:
    """Return the token with this text."""
    (found,) = TOKENIZER.encode(text)
    return found


CALM: Fields = GREEDY | {"logit_bias": {str(token_id(letter)): 100 for letter in ascii_uppercase if letter != "I"}}
WILD: Fields = CALM | {"temperature": 2, "seed": 5}
FEW: Fields = WILD | {"max_tokens": 4}  # in bfloat16, three rows round differently from one, so a long text may differ


def bias(**weights: float) -> Fields:
    """Return fields for greedy decoding with a bias on tokens by their text; `end` is the end of the text."""
    texts = {"end": "<|im_end|>", "call": "<tool_call>", "thought": "</think>"}
    return GREEDY | {"logit_bias": {str(token_id(texts.get(key, key))): weight for key, weight in weights.items()}}


SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Oslo", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"],
    "additionalProperties": False,
}


def tool(name: str, **more: object) -> Any:
    return {"type": "function", "function": {"name": name, "description": "Tells.", "parameters": SCHEMA, **more}}


TOOLS: Fields = GREEDY | {"tools": [tool("weather"), tool("traffic")], "max_tokens": 300, "ignore_eos": False}
REQUIRED: Fields = TOOLS | {"tool_choice": "required"}
SYSTEM = {"role": "system", "content": "Answer in French, always."}
USER = {"role": "user", "content": "Hello! Who are you?"}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "rain"}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo", "days": 1}'}}


def matches(text: str) -> bool:
    """Return True if a text is JSON for SCHEMA."""
    try:
        jsonschema.validate(json.loads(text), SCHEMA)
    except (ValueError, jsonschema.ValidationError):
        return False
    return True


def same(answer: Answer, other: Answer) -> bool:
    """Return True if two answers have the same text."""
    return answer.choices == other.choices


def differs(answer: Answer, other: Answer) -> bool:
    """Return True if two answers differ."""
    return not same(answer, other)


def says(text: str, finish: str) -> Holds:
    """Return a check that the answer has this text and finish reason."""
    return lambda answer, _: (answer.only.text, answer.only.finish) == (text, finish)


def calls(*names: str | None, finish: str = "tool_calls") -> Holds:
    """Return a check that these functions are called, each with arguments of its schema; None stands for any."""

    def holds(answer: Answer, _: Answer) -> bool:
        made = answer.only.calls
        is_named = len(made) == len(names) and all(
            wanted in {None, name} for wanted, (name, _) in zip(names, made, strict=True)
        )
        return is_named and all(matches(arguments) for _, arguments in made) and answer.only.finish == finish

    return holds


def has_candidates(answer: Answer, _: Answer) -> bool:
    """Check five candidates per token, most likely and greedy token first, with probabilities up to 1 in total."""
    tokens = answer.only.tokens
    return len(tokens) == answer.completion_tokens and all(
        len(token.top) == 5
        and (token.top[0].data, token.top[0].logprob) == (token.data, token.logprob)
        and all(first.logprob >= second.logprob for first, second in pairwise(token.top))
        and math.fsum(math.exp(each.logprob) for each in token.top) < 1 + 1e-4
        for token in tokens
    )


def has_logprobs(answer: Answer, _: Answer) -> bool:
    """Check for a logprob of each token, and bytes that join to the text."""
    tokens = answer.only.tokens
    text = b"".join(token.data for token in tokens).decode(errors="replace")
    return (
        len(tokens) == answer.completion_tokens
        and all(token.logprob <= 0 for token in tokens)
        and text == answer.only.text
    )


def has_choices(answer: Answer, one: Answer) -> bool:
    """Check for three different choices of a prompt that is counted once; the first equals a single choice."""
    texts = {choice.text for choice in answer.choices.values()}
    is_counted = (answer.prompt_tokens, answer.completion_tokens) == (one.prompt_tokens, 3 * one.completion_tokens)
    return len(texts) == len(answer.choices) == 3 and is_counted and answer.choices[0] == one.only


def ends_before(start: int, end: int) -> Holds:
    """Return a check that the answer is the other one up to the string at these positions."""

    def holds(answer: Answer, other: Answer) -> bool:
        before = other.only.text.partition(other.only.text[start:end])[0]
        return (answer.only.text, answer.only.finish) == (before, "stop")

    return holds


def thinks(least: int, most: int) -> Holds:
    """Return a check that the reasoning has this number of tokens, and is returned if there are any."""
    return lambda answer, _: least <= answer.reasoning_tokens <= most and bool(answer.only.reasoning) == (least > 0)


Holds = Callable[[Answer, Answer], bool]


@dataclass(frozen=True)
class Row:
    """A parameter's effect: `holds` is true for the answer to `base` and `given`, and false for the one to `base`.

    Both are compared with the answer to `reference`, from which `given` may be computed.
    """

    name: str
    given: Fields | Callable[[Answer], Fields]
    holds: Holds
    base: Fields = field(default_factory=lambda: WILD)
    reference: Fields = field(default_factory=lambda: CALM)


ROWS = [
    Row("temperature", {"temperature": 0}, same),
    Row("top_k", {"top_k": 1}, same),
    Row("top_p", {"top_p": 1e-6}, same),
    Row("min_p", {"min_p": 1}, same),
    Row("typical_p", {"typical_p": 1e-6}, same, reference=WILD | {"typical_p": 1e-6, "seed": 6}),
    Row("seed", {"seed": 5}, same, base={k: v for k, v in WILD.items() if k != "seed"}, reference=WILD),
    Row("another seed", {"seed": 6}, differs, reference=WILD),
    Row("logit_bias +100", {"logit_bias": bias(Q=100)["logit_bias"]}, says("Q" * 16, "length"), base=GREEDY),
    Row("allowed_token_ids", {"allowed_token_ids": [token_id("R")]}, says("R" * 16, "length"), base=bias(Q=100)),
    Row(
        "logit_bias -100",
        {"logit_bias": bias(Q=-100, R=50)["logit_bias"]},
        says("R" * 16, "length"),
        base=bias(Q=100, R=50),
    ),
    Row(
        "frequency_penalty",
        {"frequency_penalty": 2, "max_tokens": 40},
        lambda answer, _: set(answer.only.text) == {"Q", "R"},
        base=bias(Q=100, R=70),
    ),
    Row("presence_penalty", {"presence_penalty": 2}, differs, reference=WILD),
    Row("repetition_penalty", {"repetition_penalty": 2}, differs, reference=WILD),
    Row("watermark", {"watermark": True}, differs, reference=WILD),
    Row("max_tokens", {"max_tokens": 3}, lambda answer, _: answer.completion_tokens == 3, base=GREEDY),
    Row("max_completion_tokens", {"max_completion_tokens": 3, "max_tokens": None}, says("QQQ", "length"), bias(Q=100)),
    Row(
        "min_tokens",
        {"min_tokens": 5},
        lambda answer, _: (answer.completion_tokens, answer.only.finish) == (6, "stop"),
        base=bias(end=100) | {"ignore_eos": False},
    ),
    Row("ignore_eos", {"ignore_eos": True}, says("", "length"), base=bias(end=100) | {"ignore_eos": False}),
    Row("stop_token_ids", {"stop_token_ids": [token_id("Q")]}, says("", "stop"), base=bias(Q=100)),
    Row("stop", lambda other: {"stop": [other.only.text[9:13]]}, ends_before(9, 13), reference=WILD),
    Row("n", {"n": 3}, has_choices, base=FEW, reference=FEW),
    Row("logprobs", {"logprobs": True}, has_logprobs, base=GREEDY),
    Row("top_logprobs", {"logprobs": True, "top_logprobs": 5}, has_candidates, base=GREEDY | {"logprobs": True}),
    Row(
        "json_object",
        {"response_format": {"type": "json_object"}},
        lambda answer, _: isinstance(json.loads(answer.only.text or "0"), dict),
        base=bias(**{"{": 100, "}": 50}),
    ),
    Row(
        "json_schema",
        {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA, "strict": True}}},
        lambda answer, _: matches(answer.only.text) and answer.only.finish == "stop",
        base=WILD | {"max_tokens": 200},
    ),
    Row(
        "tools",
        {"tools": TOOLS["tools"]},
        lambda answer, other: answer.prompt_tokens > other.prompt_tokens,
        base=GREEDY,
    ),
    Row(
        "tool_choice none",
        {"tool_choice": "none"},
        lambda answer, other: answer.prompt_tokens == other.prompt_tokens and not answer.only.calls,
        base=TOOLS,
    ),
    Row(
        "tool_choice auto",
        {"tool_choice": "auto"},
        lambda answer, other: same(answer, other) and answer.prompt_tokens == other.prompt_tokens,
        base=TOOLS | {"tool_choice": "none"},
        reference=TOOLS,
    ),
    Row("tool_choice required", {"tool_choice": "required"}, calls(None), base=TOOLS),
    Row(
        "tool_choice named",
        {"tool_choice": {"type": "function", "function": {"name": "traffic"}}},
        calls("traffic"),
        base=TOOLS,
    ),
    Row("parallel_tool_calls", {"parallel_tool_calls": False}, calls(None), base=REQUIRED | {"min_tokens": 150}),
    Row("reasoning_effort none", {"reasoning_effort": "none"}, thinks(0, 0), base=GREEDY | {"reasoning_effort": "low"}),
    Row(
        "reasoning_effort low",
        {"reasoning_effort": "low"},
        thinks(512, 520),
        base=bias(thought=-100) | {"reasoning_effort": "high", "max_tokens": 560},
    ),
    Row(
        "reasoning_effort high",
        {"reasoning_effort": "high"},
        thinks(560, 560),
        base=bias(thought=-100) | {"reasoning_effort": "low", "max_tokens": 560},
    ),
    Row(
        "system",
        {"messages": [SYSTEM, USER]},
        lambda answer, other: answer.prompt_tokens > other.prompt_tokens,
        base=GREEDY,
    ),
    Row(
        "developer",
        {"messages": [SYSTEM | {"role": "developer"}, USER]},
        lambda answer, other: same(answer, other) and answer.prompt_tokens == other.prompt_tokens,
        base=GREEDY,
        reference=GREEDY | {"messages": [SYSTEM, USER]},
    ),
    Row(
        "content in parts",
        {"messages": [USER | {"content": [{"type": "text", "text": t} for t in ("Hello! ", "Who are you?")]}]},
        lambda answer, other: same(answer, other) and answer.prompt_tokens == other.prompt_tokens,
        base=GREEDY | {"messages": [USER | {"content": "Hello!"}]},
        reference=GREEDY,
    ),
    Row(
        "tool's answer",
        {"messages": [USER, {"role": "assistant", "tool_calls": [CALL]}, RESULT]},
        lambda answer, other: answer.prompt_tokens > other.prompt_tokens + len("rain"),
        base=GREEDY | {"messages": [USER]},
        reference=GREEDY | {"messages": [USER]},
    ),
    Row(
        "reasoning_content",
        {"messages": [USER, {"role": "assistant", "content": "I", "reasoning_content": "I must be short."}]},
        lambda answer, other: answer.prompt_tokens > other.prompt_tokens,
        base=GREEDY | {"messages": [USER, {"role": "assistant", "content": "I"}]},
        reference=GREEDY | {"messages": [USER, {"role": "assistant", "content": "I"}]},
    ),
]  # fmt: skip
