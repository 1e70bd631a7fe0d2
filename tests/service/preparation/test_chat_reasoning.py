"""How much whole requests let a model think."""

from __future__ import annotations

import pytest
from sluice.v1 import chat_pb2

from service.pipeline.chat import ChatPipeline
from tests.pipeline.chat_cases import END_ID, TOKENIZER, answer_of, prompt_of
from tests.pipeline.fakes import (
    CHATML,
    allowed_ids,
    events_of,
    fold,
    outputs_of,
    pipeline_of,
    request_of,
    token_id,
)


@pytest.mark.parametrize(
    ("effort", "ends_with", "num_thought"),
    [
        (chat_pb2.REASONING_EFFORT_UNSPECIFIED, "assistant\n", None),
        (chat_pb2.REASONING_EFFORT_NONE, "<think>\n\n</think>\n\n", None),
        (chat_pb2.REASONING_EFFORT_LOW, "assistant\n", 4),
        (chat_pb2.REASONING_EFFORT_MEDIUM, "assistant\n", 40),
        (chat_pb2.REASONING_EFFORT_HIGH, "assistant\n", 300),
    ],
)
async def test_effort_is_switch_and_budget(
    pipeline: ChatPipeline, effort: chat_pb2.ReasoningEffort, ends_with: str, num_thought: int | None
) -> None:
    """The effort reaches the template's switch, opens the thinking and bounds its tokens."""
    chat = await pipeline.prepare(request_of(reasoning_effort=effort), "r")
    assert prompt_of(chat).endswith(ends_with)
    constraint = chat.generation.constraint
    if num_thought is None:
        assert constraint is None
        return
    assert constraint is not None
    (letter,) = TOKENIZER.encode("x")
    said: list[int] = []
    while len(said) < 400:
        allowed = allowed_ids(constraint, TOKENIZER)
        said.append(allowed[0] if len(allowed) == 1 else letter)
        constraint.accept(said[-1])
    answer = fold(events_of(chat, outputs_of(TOKENIZER, [*said, END_ID]))).choices[0]
    thought = answer.message.reasoning
    assert len(thought) == num_thought if num_thought < 300 else len(thought) > 300


async def test_template_that_opens_the_thinking_itself() -> None:
    """Where the prompt ends with the opening marker, the answer begins inside the thinking; NONE closes it at once."""
    pipeline = pipeline_of(CHATML.split("{%- if enable_thinking")[0] + "{{ '<think>\n' }}")
    assert not pipeline.supports_reasoning
    chat = await pipeline.prepare(request_of(), "r")
    answer = answer_of(chat, "so\n</think>\n\nHi")
    assert (answer.message.reasoning, answer.message.content[0].text) == ("so", "Hi")
    chat = await pipeline.prepare(request_of(reasoning_effort=chat_pb2.REASONING_EFFORT_NONE), "r")
    assert chat.generation.constraint is not None
    assert allowed_ids(chat.generation.constraint, TOKENIZER) == [token_id(TOKENIZER, "</think>")]
    pipeline.close()


async def test_thinking_is_not_forced_on_a_model_without_a_switch() -> None:
    """A template that only shows earlier thinking tells nothing of whether the model thinks: it may, it needn't."""
    pipeline = pipeline_of(CHATML.split("{%- if enable_thinking")[0])
    chat = await pipeline.prepare(request_of(reasoning_effort=chat_pb2.REASONING_EFFORT_LOW), "r")
    assert chat.generation.constraint is not None
    assert len(allowed_ids(chat.generation.constraint, TOKENIZER)) > 100
    pipeline.close()


async def test_effort_is_ignored_by_a_model_that_does_not_think() -> None:
    """A template without thinking takes any effort and answers as ever."""
    pipeline = pipeline_of("{{ messages[0].content }}")
    chat = await pipeline.prepare(request_of(reasoning_effort=chat_pb2.REASONING_EFFORT_HIGH), "r")
    assert chat.generation.constraint is None
    assert answer_of(chat, "<think>a</think>b").message.content[0].text == "<think>a</think>b"
    pipeline.close()
