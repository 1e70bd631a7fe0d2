"""Sequence: the output of each sampled token, and the finish reasons."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import pytest

from service.engine.core.sequences.choice_seed import choice_seed
from service.engine.core.sequences.constraint_state import ConstraintState
from service.engine.core.sequences.sequence import Sequence
from service.generation.errors import ConstraintFailed
from service.generation.outputs.output import FinishReason, GenerationOutput, Timings, TokenLogprob
from service.generation.requests.parameters import LogprobsOptions, StopParams
from service.generation.requests.request import GenerationRequest
from tests.engine.byte_tokenizer import CONTROL, END
from tests.engine.fake_constraint import FakeConstraint
from tests.engine.fakes import group_of, request


class OneWord(FakeConstraint):
    """A constraint that allows the bytes of one word, and then nothing."""

    def __init__(self, word: bytes) -> None:
        self.rest = word

    def fill_mask(self, mask: Any) -> None:
        raise AssertionError("the sequence needs no mask")

    def accept(self, token_id: int) -> None:
        if token_id != self.rest[0]:
            raise ValueError("not in the grammar")
        self.rest = self.rest[1:]

    def is_finished(self) -> bool:
        return not self.rest

    def fork(self) -> Self:
        return type(self)(self.rest)


def sequence_of(
    wanted: GenerationRequest, max_model_len: int = 64, constraint: ConstraintState | None = None
) -> Sequence:
    return group_of(wanted, max_model_len=max_model_len, constraint=constraint).sequences[0]


def outputs_of_token(sequence: Sequence, token_id: int) -> list[GenerationOutput]:
    """Append one token, and return the outputs that it makes available."""
    sequence.take(token_id, 0.0)
    return sequence.take_outputs()


def accept(sequence: Sequence, *token_ids: int) -> tuple[str, FinishReason | None]:
    """The text of the tokens up to the last or the end, and the finish reason."""
    text = ""
    for token_id in token_ids:
        text += "".join(output.text for output in outputs_of_token(sequence, token_id))
        if sequence.finish_reason:
            break
    return text, sequence.finish_reason


@pytest.mark.parametrize(
    ("stopping", "token_ids", "text", "reason"),
    [
        (StopParams(), b"abc", "abc", None),
        (StopParams(), [*b"ab", END, *b"c"], "ab", FinishReason.END_OF_TEXT),
        (StopParams(ignore_eos=True), [*b"ab", END, *b"c"], "abc", None),
        (StopParams(stop_token_ids=[98]), b"abc", "a", FinishReason.END_OF_TEXT),
        (StopParams(stop_token_ids=[98], ignore_eos=True), [END, *b"abc"], "a", FinishReason.END_OF_TEXT),
        (StopParams(max_tokens=2), b"abc", "ab", FinishReason.LENGTH),
        (StopParams(max_tokens=1), b"abc", "a", FinishReason.LENGTH),
        (StopParams(stop=["bc"]), b"abcd", "a", FinishReason.STOP_SEQUENCE),
        (StopParams(stop=["bc"], max_tokens=2), b"abcd", "ab", FinishReason.LENGTH),
        (StopParams(stop=["bc"], max_tokens=3), b"abcd", "a", FinishReason.STOP_SEQUENCE),
        (StopParams(stop=["bc"]), [*b"ab", END], "ab", FinishReason.END_OF_TEXT),
        (StopParams(max_tokens=2), [END, END], "", FinishReason.END_OF_TEXT),
        (StopParams(max_tokens=2), [0xE2, 0x82, 0xAC], "\ufffd", FinishReason.LENGTH),
        (StopParams(min_tokens=1), [END, *b"a", END], "a", FinishReason.END_OF_TEXT),
        (StopParams(min_tokens=2, stop_token_ids=[97]), b"aaab", "aa", FinishReason.END_OF_TEXT),
        (StopParams(min_tokens=2, stop=["a"]), b"aaab", "aa", FinishReason.STOP_SEQUENCE),
        (StopParams(max_tokens=3), [CONTROL, *b"ab"], "ab", FinishReason.LENGTH),
        (StopParams(stop=["bc"], include_stop_str_in_output=True), b"abcd", "abc", FinishReason.STOP_SEQUENCE),
        (StopParams(stop=["bc"], include_stop_str_in_output=True), [*b"ab", END], "ab", FinishReason.END_OF_TEXT),
        (StopParams(stop_token_ids=[98], include_stop_str_in_output=True), b"abc", "ab", FinishReason.END_OF_TEXT),
    ],
)
def test_sequence_ends_as_requested(
    stopping: StopParams, token_ids: list[int], text: str, reason: FinishReason | None
) -> None:
    """A choice ends by a token, a stop string or its length.

    The text has no partial character, and no stop string unless it is to be included.
    """
    wanted = replace(request(), stopping=stopping)
    assert accept(sequence_of(wanted), *token_ids) == (text, reason)
    sequence = sequence_of(wanted)
    for token_id in token_ids:
        if sequence.finish_reason is None:
            sequence.take(token_id, 0.0)
    (output,) = sequence.take_outputs()
    assert (output.text, output.finish_reason) == (text, reason), "the text differs if it is reported at once"


def test_sequence_shows_a_final_control_token_only_if_both_options_are_set() -> None:
    """The end token is in the text only if stop strings are included and special tokens are not skipped."""
    included = replace(request(), stopping=StopParams(include_stop_str_in_output=True))
    assert accept(sequence_of(included), *b"a", END)[0] == "a"
    assert accept(sequence_of(replace(included, skip_special_tokens=False)), *b"a", END)[0] == "a<end>"


@pytest.mark.parametrize("max_tokens", [None, 100])
def test_sequence_ends_with_the_context(max_tokens: int | None) -> None:
    """Prompt and answer together never exceed the context, regardless of max_tokens."""
    sequence = sequence_of(request("12345", max_tokens=max_tokens), max_model_len=8)
    assert accept(sequence, *b"abcdef") == ("abc", FinishReason.LENGTH)
    assert len(sequence.token_ids) == 8


def test_sequence_reports_the_stop_string_and_the_timings_at_the_end() -> None:
    """Only the last output has the stop string and the time of the end."""
    group = group_of(request(stop=["b"]), arrived=1.0)
    sequence = group.sequences[0]
    sequence.scheduled = 2.0
    sequence.take(97, 3.0, batch_size=2)
    (first,) = sequence.take_outputs()
    sequence.take(98, 4.0)
    (last,) = sequence.take_outputs()
    assert (first.finish_reason, first.stop_sequence) == (None, None)
    assert (last.finish_reason, last.stop_sequence) == (FinishReason.STOP_SEQUENCE, "b")
    assert (first.token_times, first.batch_size) == ((3.0,), 2)
    assert first.timings == Timings(1.0, 2.0, 3.0, None)
    assert last.timings == Timings(1.0, 2.0, 3.0, 4.0)


def test_sequence_reports_a_logprob_for_each_token() -> None:
    """Each token has a logprob, including the end token."""
    sequence = sequence_of(request(logprobs=LogprobsOptions()))
    for token_id in (97, 98, END):
        sequence.take(token_id, 0.0, logprob=TokenLogprob(token_id, -1.0))
        if token_id == 97:
            (output,) = sequence.take_outputs()
            assert (output.token_ids, output.logprobs) == ((97,), (TokenLogprob(97, -1.0),))
    (output,) = sequence.take_outputs()
    assert (output.token_ids, output.logprobs) == ((98, END), (TokenLogprob(98, -1.0), TokenLogprob(END, -1.0)))


@pytest.mark.parametrize(
    ("stopping", "token_ids", "ends"),
    [
        (StopParams(), b"abc", [1, 2, 3]),
        (StopParams(), [*b"a", END], [1, 1]),  # the end token has no text
        (StopParams(stop=["bcd"]), b"abcx", [1, 2, 3, 4]),  # held back at first
        (StopParams(stop=["bc"]), b"abc", [1, 2, 3]),  # the stop string is counted
        (StopParams(max_tokens=3), "é".encode() + b"a", [0, 1, 2]),  # an incomplete character is not counted
        (StopParams(max_tokens=2), b"a\xc3", [1, 1]),
        (StopParams(max_tokens=3), [CONTROL, *b"ab"], [0, 1, 2]),
    ],
)
def test_sequence_reports_the_text_end_of_each_token(
    stopping: StopParams, token_ids: list[int], ends: list[int]
) -> None:
    """Each token has the number of characters up to its end, even if text is held back."""
    sequence, other = (sequence_of(replace(request(), stopping=stopping)) for _ in range(2))
    assert [
        end for token_id in token_ids for output in outputs_of_token(sequence, token_id) for end in output.text_ends
    ] == ends
    for token_id in token_ids:
        other.take(token_id, 0.0)
    (output,) = other.take_outputs()
    assert list(output.text_ends) == ends, "the ends differ if they are reported at once"


def test_sequence_ends_when_its_constraint_allows_nothing_more() -> None:
    """The end of a grammar ends the text with END_OF_TEXT, even on the last token within max_tokens."""
    sequence = sequence_of(request(max_tokens=3), constraint=OneWord(b"yes"))
    assert accept(sequence, *b"yes") == ("yes", FinishReason.END_OF_TEXT)


class BrokenConstraint(OneWord):
    """A constraint whose `is_finished` raises an exception like a panic in another language."""

    def is_finished(self) -> bool:
        raise BaseException("panic")  # noqa: TRY002  a panic is no Exception


@pytest.mark.parametrize(("constraint", "text"), [(OneWord(b"yes"), b"no"), (BrokenConstraint(b"no"), b"no")])
def test_sequence_fails_when_its_constraint_fails(constraint: OneWord, text: bytes) -> None:
    """An exception of a constraint becomes the sequence's error, with the exception as the cause."""
    sequence = sequence_of(request(), constraint=constraint)
    with pytest.raises(ConstraintFailed) as caught:
        accept(sequence, *text)
    assert caught.value.__cause__ is not None


def test_sequence_choices_have_constraints_of_their_own() -> None:
    """The tokens of one choice advance neither another choice's constraint nor the request's."""
    constraint = OneWord(b"yes")
    group = group_of(request(n=2), constraint=constraint)
    assert accept(group.sequences[0], *b"yes") == ("yes", FinishReason.END_OF_TEXT)
    assert accept(group.sequences[1], *b"yes") == ("yes", FinishReason.END_OF_TEXT)
    assert constraint.rest == b"yes"


def test_choice_seed_of_the_first_choice_is_the_request_s() -> None:
    """A request with the seed of a choice reproduces that choice."""
    assert choice_seed(5, 0) == 5
    seed = choice_seed(5, 3)
    assert choice_seed(seed, 0) == seed


def test_choice_seeds_differ_and_fit_a_generator() -> None:
    """Each choice of each request has its own seed, from 0 up to 2**63."""
    seeds = [choice_seed(seed, index) for seed in (0, 1, -1, 2**63 - 1, 2**64 - 1) for index in range(1, 64)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= choice_seed(seed, 0) < 2**63 for seed in (-1, 2**64 - 1))
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_group_is_finished_with_its_last_choice() -> None:
    """A request is finished when its last choice has ended, or when it is aborted."""
    group = group_of(request(n=2, max_tokens=1))
    accept(group.sequences[1], 97)
    assert not group.is_finished
    accept(group.sequences[0], 97)
    assert group.is_finished
    other = group_of(request(n=2))
    other.ended = True
    assert other.is_finished


def test_sequence_with_output_ends_reports_whole_spans_first() -> None:
    """Tokens between two output ends are reported together, and tokens after the last one immediately."""
    sequence = sequence_of(replace(request([1]), output_ends={0: (2, 3)}))
    spans = [
        [(output.text, output.is_whole) for output in outputs_of_token(sequence, token_id)] for token_id in b"abcde"
    ]
    assert spans == [[], [("ab", True)], [("c", True)], [("d", False)], [("e", False)]]


@pytest.mark.parametrize("stop", [(), ("x",)], ids=["decoded when reported", "decoded immediately"])
def test_sequence_with_output_ends_reports_the_same_spans_together(stop: tuple[str, ...]) -> None:
    """Spans between output ends do not depend on how often outputs are taken."""
    sequence = sequence_of(replace(request([1], stop=stop), output_ends={0: (2, 3)}))
    for token_id in b"abcde":
        sequence.take(token_id, 0.0)
    spans = [(output.text, tuple(output.text_ends), output.is_whole) for output in sequence.take_outputs()]
    assert spans == [("ab", (1, 2), True), ("c", (3,), True), ("de", (4, 5), False)]


@pytest.mark.parametrize("output_ends", [(5, 9), (3, 9)])
def test_sequence_that_ends_before_an_output_end_reports_the_rest(output_ends: tuple[int, ...]) -> None:
    """The last output of a choice that ends before an output end has all unreported tokens."""
    sequence = sequence_of(replace(request([1]), output_ends={0: output_ends}))
    outputs = [outputs_of_token(sequence, token_id) for token_id in (97, 98, END)]
    assert outputs[:2] == [[], []]
    (last,) = outputs[2]
    assert (last.text, last.finish_reason, last.is_whole) == ("ab", FinishReason.END_OF_TEXT, True)
