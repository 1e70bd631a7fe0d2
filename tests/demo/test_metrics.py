"""Marks: what counts as a right answer."""

import json

import pytest

from demo.corpus.conversation import Conversation, ask, call, call_text
from demo.metrics import METRICS, Metric, prompt_of

CALL = call("get_x", {"a": "b"})
CALLING = Conversation(
    ({"role": "user", "content": "Get x."}, {"role": "assistant", "content": "", "tool_calls": [CALL]})
)
OBJECT = ask("JSON", '{"a": 1, "b": 2}')
GIVEN = Conversation(OBJECT.messages, masked=(('{"a":', False), (' "v"', True), ("}", True)))


@pytest.mark.parametrize(
    ("metric", "case", "answer", "right"),
    [
        ("exact", ask("Hi", "Hello!"), "Hello!", True),
        ("exact", ask("Hi", "Hello!"), "Hello", False),
        ("exact", ask("Hi", "Hello!", accepted=("Hi!",)), "Hi!", True),
        ("exact", ask("Hi", "Hello!"), "<think>\nGreet.\n</think>\n\nHello!", True),
        ("exact", Conversation(raw=(("1, 2", False), (", 3<|endoftext|>", True))), ", 3", True),
        ("exact", Conversation(raw=(("1, 2", False), (", 3<|endoftext|>", True))), ", 3, 4", False),
        ("values", OBJECT, '{"b":2,"a":1}', True),
        ("values", OBJECT, '{"a": 1}', False),
        ("parseable", OBJECT, '{"a": 1}', True),
        ("parseable", OBJECT, '{"a": 1', False),
        ("parseable", CALLING, call_text(CALL), True),
        ("parseable", CALLING, "Hello!", False),
        ("parseable", CALLING, call_text(CALL) + " and more", False),
        ("names", CALLING, call_text(call("get_x", {})), True),
        ("names", CALLING, call_text(call("get_y", {"a": "b"})), False),
        ("arguments", CALLING, call_text(CALL), True),
        ("arguments", CALLING, call_text(call("get_x", {"a": "c"})), False),
        ("names", CALLING, "\n".join([call_text(CALL)] * 2), False),
        ("begins", GIVEN, ' "v"}', True),
        ("begins", GIVEN, ' "w"}', False),
    ],
)
def test_marks_distinguish_right_from_wrong(metric: Metric, case: Conversation, answer: str, right: bool) -> None:  # noqa: FBT001
    """Each metric passes what it should and nothing else."""
    assert METRICS[metric](case, answer) is right


def test_prompt_ends_where_the_model_speaks() -> None:
    """The prompt of a case holds none of the answer, but what is given of it."""
    assert prompt_of(OBJECT).endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert prompt_of(GIVEN).endswith('</think>\n\n{"a":')
    assert json.loads(OBJECT.messages[-1]["content"]) == {"a": 1, "b": 2}
