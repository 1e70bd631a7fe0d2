"""Tools of whole chats: the allowed calls, and the parsed ones."""

from __future__ import annotations

from typing import Any

import pytest

from service.generation.errors import InvalidRequest, UnsupportedFeature
from service.generation.formats.output_format import JsonObject
from service.generation.outputs.output import FinishReason
from service.generation.prompts.conversation import ReasoningEffort, ToolChoice, ToolMode
from service.generation.requests.parameters import LogprobsOptions
from service.prompting.preparation import Preparation
from service.prompts.templates.template import ChatTemplate
from tests.engine.constraints.fakes import END, token_id, tokenizer_of
from tests.service.output.fakes import ChoiceResult, outputs_of, results_by_choice
from tests.service.output.parsers.test_templated_parser import TEMPLATE as RESPONSE_TEMPLATE
from tests.service.preparation.fakes import (
    answer_to,
    chat,
    chat_model_of,
    preparation_of,
    prompt_of,
    reader_of,
    request_of,
)
from tests.service.preparation.tools import NAMED, NONE, REQUIRED, WEATHER, function


async def test_tool_choice_none_hides_the_tools(preparation: Preparation) -> None:
    """With `none` the prompt has no tools, and text like a call is content."""
    shown = await preparation.prepare(chat(tools=[WEATHER]), "r")
    hidden = await preparation.prepare(chat(tools=[WEATHER], tool_choice=NONE), "r")
    assert ("weather" in prompt_of(shown), "weather" in prompt_of(hidden)) == (True, False)
    call = '<tool_call>\n{"name": "weather", "arguments": {}}\n</tool_call>'
    assert answer_to(shown, call).reason is FinishReason.TOOL_CALLS
    assert answer_to(hidden, call).text == call


async def test_tools_are_rejected_without_a_template_for_them() -> None:
    """Tools are rejected for a model whose template takes none."""
    preparation = preparation_of("{{ messages[0].content }}")
    assert not chat_model_of(preparation).supports_tools
    with pytest.raises(UnsupportedFeature) as caught:
        await preparation.prepare(chat(tools=[WEATHER]), "r")
    assert caught.value.field == "tools"
    preparation.close()


@pytest.mark.parametrize(
    ("given", "is_constrained"),
    [
        ({}, False),
        ({"tools": [WEATHER]}, True),
        ({"tools": [WEATHER], "parallel_tool_calls": True}, True),
        ({"tools": [WEATHER], "parallel_tool_calls": False}, True),
        ({"tools": [function("f", strict=True)]}, True),
        ({"tools": [WEATHER], "tool_choice": REQUIRED}, True),
        ({"tools": [WEATHER], "tool_choice": NAMED}, True),
        ({"tools": [function("f", strict=True)], "tool_choice": NONE}, False),
        ({"output_format": JsonObject("f")}, True),
        ({"reasoning_effort": ReasoningEffort.LOW}, True),
        ({"reasoning_effort": ReasoningEffort.NONE}, False),
    ],
)
async def test_unconstrained_answers_have_no_mask(
    preparation: Preparation, given: dict[str, Any], *, is_constrained: bool
) -> None:
    """Free answers need no mask."""
    prepared = await preparation.prepare(chat(**given), "r")
    assert (request_of(prepared).constraint is not None) is is_constrained


@pytest.mark.parametrize(
    ("given", "is_constrained"),
    [
        ({"tools": [WEATHER]}, False),
        ({"tools": [WEATHER], "parallel_tool_calls": False}, True),
        ({"tools": [function("f", strict=True)]}, True),
        ({"tools": [WEATHER], "tool_choice": REQUIRED}, True),
    ],
)
async def test_setting_disables_constraints_of_optional_calls(given: dict[str, Any], *, is_constrained: bool) -> None:
    """A setting limits enforcement to the request's own requirements."""
    preparation = preparation_of(constrains_calls=False)
    prepared = await preparation.prepare(chat(**given), "r")
    assert (request_of(prepared).constraint is not None) is is_constrained
    preparation.close()


async def test_tool_choice_of_an_unknown_function_is_rejected(preparation: Preparation) -> None:
    """A choice that names no tool of the request is rejected."""
    with pytest.raises(InvalidRequest) as caught:
        await preparation.prepare(chat(tools=[WEATHER], tool_choice=ToolChoice(ToolMode.REQUIRED, "other")), "r")
    assert caught.value.field == "tool_choice.function_name"


async def test_markers_that_are_special_tokens_are_shown_to_the_parser() -> None:
    """If a family writes calls with a special token, the engine's request shows special tokens."""
    tokenizer = tokenizer_of(special=("<|im_end|>", "<|python_tag|>"))
    preparation = preparation_of("{{ tools }}{{ messages[0].content }}{# <|python_tag|> #}<|python_tag|>", tokenizer)
    assert request_of(await preparation.prepare(chat(), "r")).skip_special_tokens

    async def answer(text: str, **given: Any) -> ChoiceResult:
        prepared = await preparation.prepare(chat(tools=[WEATHER], **given), "r")
        assert not request_of(prepared).skip_special_tokens
        reader = reader_of(prepared, tokenizer)
        tokens = [*tokenizer.encode(text), token_id(tokenizer, END)]
        outputs = outputs_of(tokenizer, tokens, hides_special=False)
        return results_by_choice(event for output in outputs for event in reader.read(output))[0]

    called = await answer('<|python_tag|>{"name": "weather", "parameters": {}}')
    assert (called.calls, called.text) == ([("weather", "{}")], "")
    plain = await answer("<|python_tag|>no call", logprobs=LogprobsOptions())
    assert b"".join(logprob.data for logprob in plain.logprobs) == b"<|python_tag|>no call"
    preparation.close()


async def test_response_template_parses_answers_of_unknown_families() -> None:
    """Its calls, reasoning and content are parsed; a call can't be required."""
    source = "{{ tools }}{% for message in messages %}{{ message.content }}{% endfor %}<bot>"
    template = ChatTemplate({"default": source}, {"eos_token": END}, RESPONSE_TEMPLATE)
    preparation = preparation_of(template)
    prepared = await preparation.prepare(chat(tools=[WEATHER]), "r")
    assert request_of(prepared).constraint is None
    answer = answer_to(prepared, '<mull>hm</mull>So.<do>{"name": "weather", "arguments": {"city": "Oslo"}}</do>')
    assert (answer.reasoning, answer.text, answer.calls) == ("hm", "So.", [("weather", '{"city": "Oslo"}')])
    assert answer.reason is FinishReason.TOOL_CALLS
    with pytest.raises(UnsupportedFeature) as caught:
        await preparation.prepare(chat(tools=[WEATHER], tool_choice=REQUIRED), "r")
    assert caught.value.field == "tool_choice"
    preparation.close()
