"""The detection of a model's syntax of calls."""

from __future__ import annotations

import pytest

from service.output.families.named_calls import KIMI_K2, MISTRAL_NAMED
from service.output.families.object_calls import HERMES, LLAMA3, MISTRAL, PLAIN_JSON
from service.output.families.tool_families import tool_syntax
from service.output.families.tool_syntax import ToolSyntax


@pytest.mark.parametrize(
    ("template", "syntax"),
    [
        ("<tool_call>\n{{ call | tojson }}\n</tool_call>", HERMES),
        ("[AVAILABLE_TOOLS]{{ tools }}[TOOL_CALLS]{{ calls }}", MISTRAL),
        ("[TOOL_CALLS]{{ name }}[ARGS]{{ arguments }}", MISTRAL_NAMED),
        ("<|python_tag|>{{ call }}", LLAMA3),
        ("{{ '{\"name\": ' + name + ', \"parameters\": ' }}", LLAMA3),
        ("{{ tools }}{{ messages }}", PLAIN_JSON),
    ],
)
def test_syntax_is_read_from_the_template(template: str, syntax: ToolSyntax) -> None:
    """A template's own markers identify the family."""
    assert tool_syntax(template) is syntax


def test_call_ids_have_the_format_of_the_family() -> None:
    """Mistral's templates take ids of nine letters and digits; ids are unique."""
    assert len(MISTRAL.call_id("a/0/1")) == 9
    assert MISTRAL.call_id("a/0/1").isalnum()
    assert HERMES.call_id("a/0/1").startswith("call_")
    assert HERMES.call_id("a/0/1") == HERMES.call_id("a/0/1") != HERMES.call_id("a/0/2")


def test_kimi_call_ids_contain_function_and_call_number() -> None:
    """Kimi K2's templates show ids unchanged, and its models continue the count."""
    assert KIMI_K2.call_id("a/0/1", "weather", 3) == "functions.weather:3"
