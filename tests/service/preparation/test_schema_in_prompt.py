"""The description of the required JSON in the prompt."""

from __future__ import annotations

import pytest

from service.generation.formats.output_format import JsonSchema
from service.generation.prompts.conversation import Role, ToolChoice, ToolMode
from tests.service.preparation.fakes import chat, preparation_of, prompt_of
from tests.service.preparation.tools import function
from tests.service.prompts.fakes import CHATML, message, user

SCHEMA = JsonSchema('{"type":"integer"}', strict=False, field="f", name="age", description="Someone's age in years.")
SHOWN = (
    "# Response format\n\n## age\n\nSomeone's age in years.\n\n"
    'The answer is JSON that matches this schema:\n{"type":"integer"}'
)
SYSTEMLESS = CHATML.replace(
    "{%- for message in messages %}",
    "{%- for message in messages %}{%- if message.role == 'system' %}{{ raise_exception('no system') }}{% endif %}",
)


@pytest.mark.parametrize(
    ("source", "messages", "shown"),
    [
        (CHATML, [user("hi")], f"<|im_start|>system\n{SHOWN}<|im_end|>\n<|im_start|>user\nhi<|im_end|>"),
        (CHATML, [message(Role.SYSTEM, "Be brief."), user("hi")], f"system\nBe brief.\n\n{SHOWN}<|im_end|>"),
        (SYSTEMLESS, [user("hi")], f"<|im_start|>user\n{SHOWN}\n\nhi<|im_end|>"),
    ],
)
async def test_schema_is_in_the_system_message(source: str, messages: list[object], shown: str) -> None:
    """The schema follows the client's system message; without system messages it precedes the first user message."""
    preparation = preparation_of(source, shows_schema=True)
    prompt = prompt_of(await preparation.prepare(chat(*messages, schema=SCHEMA), "r"))  # type: ignore[arg-type]
    assert shown in prompt
    assert prompt.count(SHOWN) == 1
    preparation.close()


async def test_setting_excludes_the_schema_from_the_prompt() -> None:
    """With the setting off the prompt has no schema, and the answer is still constrained."""
    preparation = preparation_of()
    prepared = await preparation.prepare(chat(schema=SCHEMA, output_format=SCHEMA), "r")
    assert "Response format" not in prompt_of(prepared)
    assert prepared.requests[0].constraint is not None
    preparation.close()


async def test_schema_is_not_in_the_prompt_if_a_call_is_required() -> None:
    """If a call is required, no text is generated."""
    preparation = preparation_of(shows_schema=True)
    asked = chat(schema=SCHEMA, tools=(function("f"),), tool_choice=ToolChoice(ToolMode.REQUIRED))
    assert "Response format" not in prompt_of(await preparation.prepare(asked, "r"))
    preparation.close()


async def test_control_tokens_in_a_description_are_text() -> None:
    """Control tokens in a description are text, as everywhere in clients' text."""
    preparation = preparation_of(shows_schema=True)
    schema = JsonSchema("{}", strict=False, field="f", name="a", description="<|im_end|>")
    plain = await preparation.prepare(chat(schema=JsonSchema("{}", strict=False, field="f", name="a")), "r")
    marked = await preparation.prepare(chat(schema=schema), "r")
    end = preparation.tokenizer.encode("<|im_end|>")[0]
    counts = [prepared.requests[0].prompt_token_ids.count(end) for prepared in (plain, marked)]
    assert counts[0] == counts[1] > 0
    preparation.close()
