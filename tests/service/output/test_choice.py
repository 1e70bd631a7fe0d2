"""One choice's outputs as events: the same for every grouping of its tokens, with exact counts and logprobs."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from sluice.v1 import chat_pb2

from service.engine.tokenizer import FastTokenizer
from service.generation.output import FinishReason
from service.generation.parameters import StopParams
from service.pipeline.choice import ChoiceEvents
from service.pipeline.reasoning import KNOWN_MARKERS, ReasoningParser, Thinking
from service.pipeline.tool_syntax import HERMES
from tests.pipeline.fakes import ADDED, END, fold, outputs_of, token_id, tokenizer_of

TOKENIZER = tokenizer_of(*ADDED)
SPELLED = tokenizer_of()
END_ID = token_id(TOKENIZER, END)
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'

# Each with its thinking, its content, and the arguments of its calls.
TEXTS = [
    ("Hello, é 😀!", "", "Hello, é 😀!", []),
    ("<think>\nthe name\n</think>\n\nIt is é.", "the name", "It is é.", []),
    (f"Let me see.\n{CALL}", "", "Let me see.", ['{"city": "Oslo"}']),
    (f"<think>hm</think>{CALL}\n{CALL} there", "hm", " there", ['{"city": "Oslo"}', '{"city": "Oslo"}']),
    ("a <tool_call> b </think> c", "", "a <tool_call> b </think> c", []),
    ("", "", "", []),
]


def choice_of(tokenizer: FastTokenizer = TOKENIZER, *, with_logprobs: bool = True) -> ChoiceEvents:
    return ChoiceEvents(
        0,
        tokenizer,
        reasoning=ReasoningParser(KNOWN_MARKERS[0], Thinking.MAY_OPEN),
        syntax=HERMES,
        names=["weather"],
        hidden_ids=tokenizer.special_token_ids,
        with_logprobs=with_logprobs,
    )


def answer_of(
    choice: ChoiceEvents, token_ids: Sequence[int], tokenizer: FastTokenizer = TOKENIZER, **how: object
) -> chat_pb2.ChatChoice:
    outputs = outputs_of(tokenizer, token_ids, **how)  # type: ignore[arg-type]
    answer = fold(event for output in outputs for event in choice.take(output)).choices[0]
    for call in answer.message.tool_calls:
        assert call.id
        call.id = ""  # drawn anew each time
    return answer


@pytest.mark.parametrize("tokenizer", [TOKENIZER, SPELLED], ids=["tokens", "spelled"])
@pytest.mark.parametrize(("text", "thinking", "content", "calls"), TEXTS)
def test_events_are_the_same_for_every_grouping(
    tokenizer: FastTokenizer, text: str, thinking: str, content: str, calls: list[str]
) -> None:
    """However many tokens come in one output, the answer, its logprobs and its counts are the same."""
    token_ids = [*tokenizer.encode(text), token_id(tokenizer, END)]
    whole = choice_of(tokenizer)
    answer = answer_of(whole, token_ids, tokenizer, cuts=[len(token_ids)])
    assert (answer.message.reasoning, "".join(part.text for part in answer.message.content)) == (thinking, content)
    assert [call.function.arguments for call in answer.message.tool_calls] == calls
    finish = chat_pb2.FINISH_REASON_TOOL_CALLS if calls else chat_pb2.FINISH_REASON_STOP
    assert answer.finish_reason == finish
    rng = random.Random(0)
    for cuts in [
        [],
        *([cut] for cut in range(1, len(token_ids))),
        *(sorted(rng.sample(range(1, len(token_ids) + 1), min(3, len(token_ids)))) for _ in range(20)),
    ]:
        part = choice_of(tokenizer)
        assert answer_of(part, token_ids, tokenizer, cuts=cuts) == answer
        assert (part.num_tokens, part.num_reasoning_tokens) == (whole.num_tokens, whole.num_reasoning_tokens)


@pytest.mark.parametrize(("text", "thinking", "content", "calls"), TEXTS)
def test_logprobs_are_those_of_content_tokens(text: str, thinking: str, content: str, calls: list[str]) -> None:
    """The tokens told are in order, and their bytes are the content where tokens don't reach beyond it."""
    answer = answer_of(choice_of(), [*TOKENIZER.encode(text), END_ID])
    told = b"".join(logprob.bytes for logprob in answer.logprobs)
    assert told.decode().strip() == content.strip()
    places = [-1 - logprob.logprob for logprob in answer.logprobs]
    assert places == sorted(places)


def test_thinking_tokens_are_counted_to_the_token() -> None:
    """Markers and the white space beside them count as thinking; content and the end don't."""
    thought, said = TOKENIZER.encode("<think>\nthe name\n</think>\n\n"), TOKENIZER.encode("It is.")
    choice = choice_of()
    answer_of(choice, [*thought, *said, END_ID])
    assert (choice.num_tokens, choice.num_reasoning_tokens) == (len(thought) + len(said) + 1, len(thought))


@pytest.mark.parametrize(
    ("text", "reason", "num_thought"),
    [("<think>the name", FinishReason.LENGTH, None), ("It is", FinishReason.LENGTH, 0)],
)
def test_answer_that_never_left_its_thinking_is_all_thinking(
    text: str, reason: FinishReason, num_thought: int | None
) -> None:
    """Cut off while it thinks, every token is thinking; without thinking, none is."""
    token_ids = TOKENIZER.encode(text)
    choice = choice_of()
    answer = answer_of(choice, token_ids, reason=reason)
    assert choice.num_reasoning_tokens == (len(token_ids) if num_thought is None else num_thought)
    assert answer.finish_reason == chat_pb2.FINISH_REASON_LENGTH


def test_answer_cut_off_inside_a_call_ends_by_length() -> None:
    """A call that isn't complete is told as far as it came, and the reason says so."""
    token_ids = TOKENIZER.encode('<tool_call>\n{"name": "weather", "arguments": {"city": "Os')
    answer = answer_of(choice_of(), token_ids, reason=FinishReason.LENGTH)
    assert answer.finish_reason == chat_pb2.FINISH_REASON_LENGTH
    assert answer.message.tool_calls[0].function.arguments == '{"city": "Os'


def test_stop_sequence_is_told_and_its_tokens_have_no_logprobs() -> None:
    """Text from the stop string on is neither content nor listed."""
    token_ids = [*TOKENIZER.encode("one STOP two"), END_ID]
    answer = answer_of(choice_of(), token_ids, stopping=StopParams(stop=["STOP"]))
    assert (answer.stop_sequence, answer.finish_reason) == ("STOP", chat_pb2.FINISH_REASON_STOP)
    assert answer.message.content[0].text == "one "
    assert b"".join(logprob.bytes for logprob in answer.logprobs).decode() in ("one", "one ")


def test_token_that_the_stop_string_cuts_is_a_content_token() -> None:
    """A token of which only the beginning is sent is listed, whole."""
    tokenizer = tokenizer_of(*ADDED, "e ST")
    token_ids = [*tokenizer.encode("one STOP"), token_id(tokenizer, END)]
    answer = answer_of(choice_of(tokenizer), token_ids, tokenizer, stopping=StopParams(stop=["STOP"]))
    assert answer.message.content[0].text == "one "
    assert answer.logprobs[-1].bytes == b"e ST"


def test_logprobs_come_before_a_call_that_follows_their_text() -> None:
    """A token whose last characters are the white space before a call is told when the call is, and ahead of it."""
    tokenizer = tokenizer_of(*ADDED, "now\n")
    token_ids = [*tokenizer.encode(f"now\n{CALL}"), token_id(tokenizer, END)]
    choice = choice_of(tokenizer)
    events = [event for output in outputs_of(tokenizer, token_ids) for event in choice.take(output)]
    kinds = [event.WhichOneof("event") for event in events]
    assert kinds[:3] == ["content_delta", "content_delta", "tool_call_delta"]
    assert [len(event.content_delta.logprobs) for event in events[:2]] == [0, 1]


def test_bytes_that_are_no_text_keep_their_logprobs() -> None:
    """A character that never became one appears as U+FFFD, with the tokens that began it."""
    single = {TOKENIZER.token_bytes(token): token for token in range(TOKENIZER.vocab_size)}
    token_ids = [single[b"a"], single[b"\xf0"], single[b"\x9f"]]
    answer = answer_of(choice_of(), token_ids, reason=FinishReason.LENGTH)
    assert answer.message.content[0].text == "a\ufffd"
    assert [logprob.bytes for logprob in answer.logprobs] == [b"a", b"\xf0", b"\x9f"]


def test_no_logprobs_unless_asked_for() -> None:
    """Without the option, none are sent."""
    assert not answer_of(choice_of(with_logprobs=False), [*TOKENIZER.encode("hello"), END_ID]).logprobs


def test_call_deltas_have_id_and_name_first() -> None:
    """A call's first delta has its id and name, the following ones pieces of arguments and nothing else."""
    choice = choice_of()
    outputs = outputs_of(TOKENIZER, [*TOKENIZER.encode(CALL), END_ID])
    deltas = [
        event.tool_call_delta
        for output in outputs
        for event in choice.take(output)
        if event.HasField("tool_call_delta")
    ]
    assert deltas[0].name == "weather"
    assert deltas[0].id
    assert deltas[0].arguments == ""
    assert len(deltas) > 3
    assert not any(delta.HasField("id") or delta.HasField("name") for delta in deltas[1:])
    assert all(delta.arguments for delta in deltas[1:])
