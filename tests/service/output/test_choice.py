"""One choice's outputs as events: the same for every grouping of its tokens, with exact counts and logprobs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.formats.constraint import ReasoningStart
from service.generation.outputs.events import Event, Text, ToolArguments, ToolCall
from service.generation.outputs.output import FinishReason
from service.generation.requests.parameters import StopParams
from service.output.answers.choice import AnswerForm, ChoiceReader
from service.output.families.object_calls import HERMES
from service.output.families.reasoning_families import THINK
from tests.engine.constraints.fakes import ADDED, END, token_id, tokenizer_of
from tests.service.output.fakes import ChoiceResult, outputs_of, results_by_choice

TOKENIZER = tokenizer_of(*ADDED)
SPELLED = tokenizer_of()
END_ID = token_id(TOKENIZER, END)
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'

# Each with its reasoning, its content, and the arguments of its calls.
TEXTS = [
    ("Hello, é 😀!", "", "Hello, é 😀!", []),
    ("<think>\nthe name\n</think>\n\nIt is é.", "the name", "It is é.", []),
    (f"Let me see.\n{CALL}", "", "Let me see.", ['{"city": "Oslo"}']),
    (f"<think>hm</think>{CALL}\n{CALL} there", "hm", " there", ['{"city": "Oslo"}', '{"city": "Oslo"}']),
    ("a <tool_call> b </think> c", "", "a <tool_call> b </think> c", []),
    ("", "", "", []),
]


def choice_of(tokenizer: FastTokenizer = TOKENIZER, *, with_logprobs: bool = True) -> ChoiceReader:
    form = AnswerForm(THINK, ReasoningStart.MAY_OPEN, HERMES, {"weather": {}})
    return ChoiceReader(0, tokenizer, form, hidden_ids=tokenizer.special_token_ids, with_logprobs=with_logprobs)


def events_of(
    choice: ChoiceReader, token_ids: Sequence[int], tokenizer: FastTokenizer = TOKENIZER, **how: Any
) -> list[Event]:
    return [event for output in outputs_of(tokenizer, token_ids, **how) for event in choice.read(output)]


def answer_of(
    choice: ChoiceReader, token_ids: Sequence[int], tokenizer: FastTokenizer = TOKENIZER, **how: Any
) -> ChoiceResult:
    answer = results_by_choice(events_of(choice, token_ids, tokenizer, **how))[0]
    assert all(answer.call_ids)
    return answer


@pytest.mark.parametrize("tokenizer", [TOKENIZER, SPELLED], ids=["tokens", "spelled"])
@pytest.mark.parametrize(("text", "reasoning", "content", "calls"), TEXTS)
def test_events_are_the_same_for_every_grouping(
    tokenizer: FastTokenizer, text: str, reasoning: str, content: str, calls: list[str]
) -> None:
    """However many tokens are in one output, the answer, its logprobs and its counts are the same."""
    token_ids = [*tokenizer.encode(text), token_id(tokenizer, END)]
    whole = choice_of(tokenizer)
    answer = answer_of(whole, token_ids, tokenizer, cuts=[len(token_ids)])
    assert (answer.reasoning, answer.text) == (reasoning, content)
    assert answer.calls == [("weather", arguments) for arguments in calls]
    assert answer.reason is (FinishReason.TOOL_CALLS if calls else FinishReason.END_OF_TEXT)
    rng = random.Random(0)
    for cuts in [
        [],
        *([cut] for cut in range(1, len(token_ids))),
        *(sorted(rng.sample(range(1, len(token_ids) + 1), min(3, len(token_ids)))) for _ in range(20)),
    ]:
        part = choice_of(tokenizer)
        assert answer_of(part, token_ids, tokenizer, cuts=cuts) == answer
        assert (part.num_tokens, part.num_reasoning_tokens) == (whole.num_tokens, whole.num_reasoning_tokens)


@pytest.mark.parametrize(("text", "reasoning", "content", "calls"), TEXTS)
def test_logprobs_are_those_of_content_tokens(text: str, reasoning: str, content: str, calls: list[str]) -> None:
    """The tokens are in order, and their bytes are the content unless a token reaches beyond it."""
    answer = answer_of(choice_of(), [*TOKENIZER.encode(text), END_ID])
    listed = b"".join(logprob.data for logprob in answer.logprobs)
    assert listed.decode().strip() == content.strip()
    places = [-1 - logprob.logprob for logprob in answer.logprobs]
    assert places == sorted(places)


@pytest.mark.parametrize("cuts", [[], [3]])
def test_continuation_of_a_raw_prompt_has_logprobs_of_every_token(cuts: list[int]) -> None:
    """Control tokens, including the end of the text, have logprobs; tokens that a stop string cuts off don't."""
    form = AnswerForm(emits_every_token=True)
    control = next(iter(TOKENIZER.special_token_ids - {END_ID}))

    def tokens_with_logprobs(token_ids: Sequence[int], **how: Any) -> list[int]:
        choice = ChoiceReader(0, TOKENIZER, form, hidden_ids=TOKENIZER.special_token_ids, with_logprobs=True)
        return [logprob.token_id for logprob in answer_of(choice, token_ids, cuts=cuts, **how).logprobs]

    letters = TOKENIZER.encode("a b!")
    for token_ids in ([*letters, END_ID], [letters[0], control, *letters, letters[0]], [END_ID]):
        if len(token_ids) > 3 or not cuts:
            assert tokens_with_logprobs(token_ids) == token_ids
    cut = [*letters, *TOKENIZER.encode("c")]
    assert tokens_with_logprobs(cut, stopping=StopParams(stop=("!",)), reason=FinishReason.LENGTH) == letters[:-1]


def test_reasoning_tokens_are_counted_exactly() -> None:
    """Markers and the white space around them count as reasoning; content and the end of the text don't."""
    reasoned, content = TOKENIZER.encode("<think>\nthe name\n</think>\n\n"), TOKENIZER.encode("It is.")
    choice = choice_of()
    answer_of(choice, [*reasoned, *content, END_ID])
    assert (choice.num_tokens, choice.num_reasoning_tokens) == (len(reasoned) + len(content) + 1, len(reasoned))


@pytest.mark.parametrize(
    ("text", "reason", "num_reasoned"),
    [("<think>the name", FinishReason.LENGTH, None), ("It is", FinishReason.LENGTH, 0)],
)
def test_all_tokens_count_if_an_answer_ends_in_its_reasoning(
    text: str, reason: FinishReason, num_reasoned: int | None
) -> None:
    """In an answer that is truncated during reasoning every token is reasoning; without reasoning, none is."""
    token_ids = TOKENIZER.encode(text)
    choice = choice_of()
    answer = answer_of(choice, token_ids, reason=reason)
    assert choice.num_reasoning_tokens == (len(token_ids) if num_reasoned is None else num_reasoned)
    assert answer.reason is FinishReason.LENGTH


def test_answer_truncated_in_a_call_finishes_with_length() -> None:
    """An incomplete call is returned as far as it came, and the finish reason is LENGTH."""
    token_ids = TOKENIZER.encode('<tool_call>\n{"name": "weather", "arguments": {"city": "Os')
    answer = answer_of(choice_of(), token_ids, reason=FinishReason.LENGTH)
    assert answer.reason is FinishReason.LENGTH
    assert answer.calls == [("weather", '{"city": "Os')]


def test_stop_sequence_is_returned_and_its_tokens_have_no_logprobs() -> None:
    """Text from the stop string on is not content and has no logprobs."""
    token_ids = [*TOKENIZER.encode("one STOP two"), END_ID]
    answer = answer_of(choice_of(), token_ids, stopping=StopParams(stop=["STOP"]))
    assert (answer.stop_sequence, answer.reason) == ("STOP", FinishReason.STOP_SEQUENCE)
    assert answer.text == "one "
    assert b"".join(logprob.data for logprob in answer.logprobs).decode() in ("one", "one ")


def test_token_partly_before_the_stop_string_is_a_content_token() -> None:
    """A token of which only the beginning is sent has a logprob, with all of its bytes."""
    tokenizer = tokenizer_of(*ADDED, "e ST")
    token_ids = [*tokenizer.encode("one STOP"), token_id(tokenizer, END)]
    answer = answer_of(choice_of(tokenizer), token_ids, tokenizer, stopping=StopParams(stop=["STOP"]))
    assert answer.text == "one "
    assert answer.logprobs[-1].data == b"e ST"


def test_logprobs_come_before_a_call_that_follows_their_text() -> None:
    """A token that ends with the white space before a call is returned together with the call, and before it."""
    tokenizer = tokenizer_of(*ADDED, "now\n")
    token_ids = [*tokenizer.encode(f"now\n{CALL}"), token_id(tokenizer, END)]
    first, second, third, *_ = events_of(choice_of(tokenizer), token_ids, tokenizer)
    assert isinstance(first, Text)
    assert isinstance(second, Text)
    assert isinstance(third, ToolCall)
    assert [len(text.logprobs) for text in (first, second)] == [0, 1]


def test_invalid_utf8_bytes_keep_their_logprobs() -> None:
    """A character that was never completed appears as U+FFFD, with the tokens that began it."""
    single = {TOKENIZER.token_bytes(token): token for token in range(TOKENIZER.vocab_size)}
    token_ids = [single[b"a"], single[b"\xf0"], single[b"\x9f"]]
    answer = answer_of(choice_of(), token_ids, reason=FinishReason.LENGTH)
    assert answer.text == "a\ufffd"
    assert [logprob.data for logprob in answer.logprobs] == [b"a", b"\xf0", b"\x9f"]


def test_no_logprobs_without_the_option() -> None:
    """Without the option, no logprobs are returned."""
    assert not answer_of(choice_of(with_logprobs=False), [*TOKENIZER.encode("hello"), END_ID]).logprobs


def test_call_begins_with_its_id_and_name() -> None:
    """A call's first event has its id and name; the others are pieces of its arguments."""
    choice = choice_of()
    first, *rest = [
        event
        for event in events_of(choice, [*TOKENIZER.encode(CALL), END_ID])
        if isinstance(event, ToolCall | ToolArguments)
    ]
    assert isinstance(first, ToolCall)
    assert (first.name, bool(first.id)) == ("weather", True)
    assert len(rest) > 2
    for event in rest:
        assert isinstance(event, ToolArguments)
        assert event.text


def test_text_ends_are_optional_without_logprobs_and_reasoning() -> None:
    """Outputs of an engine that doesn't report where tokens end are read without logprobs and reasoning."""
    choice = ChoiceReader(0, TOKENIZER, AnswerForm(), hidden_ids=(), with_logprobs=False)
    token_ids = [*TOKENIZER.encode("hello"), END_ID]
    (output,) = outputs_of(TOKENIZER, token_ids, cuts=[len(token_ids)])
    assert results_by_choice(choice.read(output._replace(text_ends=())))[0].text == "hello"
    assert choice.num_tokens == len(output.token_ids)
