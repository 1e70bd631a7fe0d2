"""The contract's rules on a real server: (request, field, rule, value)."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from google.protobuf.message import Message
from sluice.v1 import chat_pb2, content_pb2, model_pb2, tool_pb2

from service.calls.errors import InvalidMessage
from service.contract.parts.rules import PATTERNS, Rules
from tests.service.fakes import MODEL, rejection_of, request, running

CASES = [
    ('model: ""', "model", "string.min_len", ""),
    ("n: 0", "n", "uint32.gte_lte", "0"),
    ("n: 129", "n", "uint32.gte_lte", "129"),
    ("sampling { temperature: 2.5 }", "sampling.temperature", "float.gte_lte", "2.5"),
    ("sampling { temperature: nan }", "sampling.temperature", "float.gte_lte", "nan"),
    ("sampling { top_p: 0 }", "sampling.top_p", "float.gt_lte", "0"),
    ("sampling { logit_bias { key: 5 value: 200 } }", "sampling.logit_bias[5]", "float.gte_lte", "200"),
    ("stopping { max_tokens: 0 }", "stopping.max_tokens", "uint32.gte", "0"),
    ("stopping { max_tokens: 2 min_tokens: 5 }", "stopping.min_tokens", "min_tokens.max_tokens", None),
    ('stopping { stop: "a" stop: "" }', "stopping.stop[1]", "string.min_len", ""),
    ("logprobs { top_logprobs: 21 }", "logprobs.top_logprobs", "uint32.lte", "21"),
    ("messages { role: 9 content { text: 'x' } }", "messages[1].role", "enum.defined_only", "9"),
    ("messages { role: ROLE_USER content { } }", "messages[1].content[0].part", "required", None),
    ("messages { role: ROLE_SYSTEM content { text: 'x' } }", "messages", "messages.system", None),
    ("messages { role: ROLE_TOOL content { text: 'x' } }", "messages[1].tool_call_id", "tool_call_id.required", None),
    ("tool_choice { mode: TOOL_CHOICE_MODE_REQUIRED }", "tool_choice", "tool_choice.tools", None),
    ("tools { function { name: 'no spaces' } }", "tools[0].function.name", "string.pattern", "no spaces"),
]


@pytest.mark.parametrize(("change", "field", "rule", "value"), CASES, ids=[case[0] for case in CASES])
async def test_validation_names_field_and_rule(change: str, field: str, rule: str, value: str | None) -> None:
    """The violation has the path of proto names and the rule's id; a scalar value is returned to the client."""
    wrong = chat_pb2.ChatRequest(messages=request().messages)
    text_format.Merge(change, wrong)
    if not change.startswith("model"):
        wrong.model = MODEL
    async with running() as run:
        rejection = await rejection_of(run.chat.StreamChat(wrong))
        assert run.engine.stats().num_steps == 0
    assert rejection.fields == [(field, rule)]
    assert rejection.info.reason == "INVALID_FIELD"
    assert rejection.info.metadata["field"] == field
    assert dict(rejection.info.metadata).get("value") == value
    assert rejection.text.startswith(f"{field}: ")


async def test_automatic_choice_needs_no_tools() -> None:
    """Clients send it with an empty list of tools, too."""
    chat = request()
    chat.tool_choice.mode = tool_pb2.TOOL_CHOICE_MODE_AUTO
    async with running() as run:
        assert [event async for event in run.chat.StreamChat(chat)][-1].HasField("completed")


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (
            model_pb2.LoadModelRequest(name=".", path="a", dtype="float8", quantization="int2"),
            "name: must not be . or ..; dtype: must be auto, bfloat16 or float32; quantization: must be int8 or int4",
        ),
        (
            chat_pb2.ChatRequest(
                model="m", messages=[content_pb2.Message(content=[content_pb2.ContentPart(text="hi")])]
            ),
            "messages[0].role: must not be ROLE_UNSPECIFIED",
        ),
    ],
)
def test_lists_of_values_are_named(message: Message, text: str) -> None:
    """The text names the values that a field may have, or must not have; an empty text counts as a missing one."""
    with pytest.raises(InvalidMessage) as caught:
        Rules([type(message)]).check(message)
    assert str(caught.value) == text


async def test_validation_of_another_service() -> None:
    """Requests to ModelService are validated, too."""
    async with running() as run:
        rejection = await rejection_of(run.models.GetModel(model_pb2.GetModelRequest()))
    assert rejection.fields == [("model", "string.min_len")]


async def test_status_of_a_thousand_violations_fits_into_trailers() -> None:
    """The status fits into the trailers and says INVALID_ARGUMENT, whatever the number of violations."""
    wrong = request(messages=[{"role": 9}] * 1000)
    async with running() as run:
        rejection = await rejection_of(run.chat.Chat(wrong))
    assert rejection.code.name == "INVALID_ARGUMENT"
    assert len(rejection.fields) == 8


async def test_long_invalid_value_is_shortened() -> None:
    """A long invalid value is shortened."""
    async with running() as run:
        rejection = await rejection_of(run.chat.Chat(request(model="m" * 5000)))
    assert rejection.info.metadata["value"] == "m" * 256


@pytest.mark.parametrize(
    ("change", "field", "rule"),
    [
        ({"tools": [{"function": {"name": "f f"}}] * 30_000}, "tools", "repeated.max_items"),
        ({"messages": [{"role": 2, "content": [{"text": ""}] * 50_000}]}, "messages[0].content", "repeated.max_items"),
        ({"messages": [{"role": 2}] * 100_000}, "messages", "repeated.max_items"),
        ({"stopping": {"stop": [""] * 500_000}}, "stopping.stop", "repeated.max_items"),
        ({"sampling": {"logit_bias": dict.fromkeys(range(300_000), 1000)}}, "sampling.logit_bias", "map.max_pairs"),
    ],
    ids=["tools", "content", "messages", "stop", "logit_bias"],
)
async def test_too_many_items_are_rejected_without_validating_each(
    change: dict[str, Any], field: str, rule: str
) -> None:
    """Only their number is reported, without minutes of comparing all pairs of items."""
    async with running() as run:
        rejection = await rejection_of(run.chat.Chat(request(**change)))
    assert rejection.code.name == "INVALID_ARGUMENT"
    assert rejection.fields == [(field, rule)]
    assert "at most" in rejection.text


async def test_validation_of_many_items_reports_the_first_violation() -> None:
    """For a request with few items all violations are reported, for one with many only the first."""
    parts = [{"text": "x"}] * 1000
    async with running() as run:
        few = await rejection_of(run.chat.Chat(request(n=0, messages=[{"role": 9, "content": parts}])))
        many = await rejection_of(run.chat.Chat(request(n=0, messages=[{"role": 9, "content": parts}] * 5)))
    assert len(few.fields) == 2
    assert len(many.fields) == 1


def test_every_pattern_of_the_contract_has_a_description() -> None:
    """Clients get a description of valid names instead of a regular expression."""
    proto = Path(__file__).parents[3] / "proto" / "sluice" / "v1"
    found = {
        json.loads(text)
        for path in proto.glob("*.proto")
        for text in re.findall(r'pattern(?:: | = )("(?:[^"\\\\]|\\\\.)*")', path.read_text())
    }
    assert found == PATTERNS.keys()
