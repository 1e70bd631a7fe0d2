"""The messages of a chat over the inference protocol."""

from __future__ import annotations

import json
from typing import Any

from sluice.v1 import content_pb2

from service.contract.inference.chat_messages import to_chat_messages

HI: dict[str, Any] = {"role": "user", "content": "hi"}


def messages(*given: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Return the role and the texts of each converted message."""
    made = to_chat_messages(json.dumps(given), "messages")
    return [(content_pb2.Role.Name(each.role), [part.text for part in each.content]) for each in made]


def test_later_system_message_is_a_turn_of_the_user() -> None:
    """As in the REST dialects: templates have one position for it."""
    system = {"role": "system", "content": "Be brief."}
    assert messages(system, HI, {**system, "role": "developer"}) == [
        ("ROLE_SYSTEM", ["Be brief."]),
        ("ROLE_USER", ["hi"]),
        ("ROLE_USER", ["Be brief."]),
    ]


def test_answer_and_result_without_content_are_empty_texts() -> None:
    """An answer that ended during its reasoning has none; a call needs none."""
    call = {"id": "c", "function": {"name": "f", "arguments": "{}"}}
    assert messages(
        HI,
        {"role": "assistant", "content": None, "reasoning_content": "hm"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": []},
        {"role": "user", "content": None},
    )[1:] == [("ROLE_ASSISTANT", [""]), ("ROLE_ASSISTANT", []), ("ROLE_TOOL", [""]), ("ROLE_USER", [])]
