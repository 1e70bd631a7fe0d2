"""Sequence: what a sampled token adds, and when it is the last."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import pytest

from service.engine.core.sequences.constraint_state import ConstraintState
from service.engine.core.sequences.sequence import Sequence, choice_seed
from service.generation.errors import ConstraintFailed
from service.generation.output import FinishReason, GenerationOutput, Timings, TokenLogprob
from service.generation.parameters import LogprobsOptions, StopParams
from service.generation.request import GenerationRequest
from tests.engine.fakes import CONTROL, END, group_of, request


class OneWord:
    """A constraint that takes the bytes of one word, and then nothing."""

    is_free = False

    def __init__(self, word: bytes) -> None:
        self.rest = word

    def fill_mask(self, mask: Any) -> None:
        raise AssertionError("the sequence asks for no mask")

    def accept(self, token_id: int) -> None:
        if token_id != self.rest[0]:
            raise ValueError("not in the grammar")
        self.rest = self.rest[1:]

    def shortest(self) -> None: ...

    def replace_token(self, token_id: int, num_left: int) -> int:
        return token_id

    def is_finished(self) -> bool:
        return not self.rest

    def forced_tokens(self) -> list[int]:
        return []

    def fork(self) -> Self:
        return type(self)(self.rest)


def sequence_of(
    wanted: GenerationRequest, max_model_len: int = 64, constraint: ConstraintState | None = None
) -> Sequence:
    return group_of(wanted, max_model_len=max_model_len, constraint=constraint).sequences[0]


def say(sequence: Sequence, token_id: int) -> list[GenerationOutput]:
    """What is told of one more token."""
    sequence.take(token_id, 0.0)
    return sequence.take_outputs()


def accept(sequence: Sequence, *token_ids: int) -> tuple[str, FinishReason | None]:
    """The text of the tokens up to the last or the end, and the finish reason."""
    text = ""
    for token_id in token_ids:
        text += "".join(output.text for output in say(sequence, token_id))
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
def test_sequence_ends_as_the_request_says(
    stopping: StopParams, token_ids: list[int], text: str, reason: FinishReason | None
) -> None:
    """The end comes by token, by stop string or by length.

    The text doesn't have half a character, nor the stop, unless it is to be included.
    """
    wanted = replace(request(), stopping=stopping)
    assert accept(sequence_of(wanted), *token_ids) == (text, reason)
    sequence = sequence_of(wanted)
    for token_id in token_ids:
        if sequence.finish_reason is None:
            sequence.take(token_id, 0.0)
    (output,) = sequence.take_outputs()
    assert (output.text, output.finish_reason) == (text, reason), "told together it is another text"


def test_sequence_shows_a_control_token_that_ends_it_only_if_both_are_asked_for() -> None:
    """As part of what ended the text, and as a control token."""
    included = replace(request(), stopping=StopParams(include_stop_str_in_output=True))
    assert accept(sequence_of(included), *b"a", END)[0] == "a"
    assert accept(sequence_of(replace(included, skip_special_tokens=False)), *b"a", END)[0] == "a<end>"


@pytest.mark.parametrize("max_tokens", [None, 100])
def test_sequence_ends_with_the_context(max_tokens: int | None) -> None:
    """Prompt and answer together are never longer than the context, whatever the request asks for."""
    sequence = sequence_of(request("12345", max_tokens=max_tokens), max_model_len=8)
    assert accept(sequence, *b"abcdef") == ("abc", FinishReason.LENGTH)
    assert len(sequence.token_ids) == 8


def test_sequence_tells_the_stop_string_and_the_timings_at_the_end() -> None:
    """The last output, and no other, names the stop string and the instant of the end."""
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


def test_sequence_passes_logprobs_on_for_each_token() -> None:
    """There is one logprob for each token, the one that ends the text included."""
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
        (StopParams(), [*b"a", END], [1, 1]),  # the token that ends the text makes none of it
        (StopParams(stop=["bcd"]), b"abcx", [1, 2, 3, 4]),  # held back, and then not
        (StopParams(stop=["bc"]), b"abc", [1, 2, 3]),  # the stop string is counted
        (StopParams(max_tokens=3), "é".encode() + b"a", [0, 1, 2]),  # half a character makes none
        (StopParams(max_tokens=2), b"a\xc3", [1, 1]),
        (StopParams(max_tokens=3), [CONTROL, *b"ab"], [0, 1, 2]),
    ],
)
def test_sequence_tells_where_each_tokens_characters_end(
    stopping: StopParams, token_ids: list[int], ends: list[int]
) -> None:
    """Each token has the number of characters that the tokens make up to its end, whatever is held back."""
    sequence, other = (sequence_of(replace(request(), stopping=stopping)) for _ in range(2))
    assert [end for token_id in token_ids for output in say(sequence, token_id) for end in output.text_ends] == ends
    for token_id in token_ids:
        other.take(token_id, 0.0)
    (output,) = other.take_outputs()
    assert list(output.text_ends) == ends, "told together they end elsewhere"


def test_sequence_ends_when_its_constraint_lets_nothing_follow() -> None:
    """The end of a grammar is the end of the text, also on the last token that the length allows."""
    sequence = sequence_of(request(max_tokens=3), constraint=OneWord(b"yes"))
    assert accept(sequence, *b"yes") == ("yes", FinishReason.END_OF_TEXT)


class Broken(OneWord):
    """A constraint that fails when it is asked whether it has ended, as a panic in another language would."""

    def is_finished(self) -> bool:
        raise BaseException("panic")  # noqa: TRY002 - that is what it is about


@pytest.mark.parametrize(("constraint", "text"), [(OneWord(b"yes"), b"no"), (Broken(b"no"), b"no")])
def test_sequence_fails_alone_when_its_constraint_does(constraint: OneWord, text: bytes) -> None:
    """A constraint's own exception becomes the sequence's error, with the cause."""
    sequence = sequence_of(request(), constraint=constraint)
    with pytest.raises(ConstraintFailed) as caught:
        accept(sequence, *text)
    assert caught.value.__cause__ is not None


def test_sequence_choices_have_constraints_of_their_own() -> None:
    """What one choice says does not move another's constraint, nor the request's."""
    constraint = OneWord(b"yes")
    group = group_of(request(n=2), constraint=constraint)
    assert accept(group.sequences[0], *b"yes") == ("yes", FinishReason.END_OF_TEXT)
    assert accept(group.sequences[1], *b"yes") == ("yes", FinishReason.END_OF_TEXT)
    assert constraint.rest == b"yes"


def test_choice_seed_of_the_first_choice_is_the_request_s() -> None:
    """So a choice can be had again by itself, with its own seed."""
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
    """A request ends with the last of its choices, or at once when it is given up."""
    group = group_of(request(n=2, max_tokens=1))
    accept(group.sequences[1], 97)
    assert not group.is_finished
    accept(group.sequences[0], 97)
    assert group.is_finished
    other = group_of(request(n=2))
    other.ended = True
    assert other.is_finished


def test_sequence_with_cuts_tells_whole_pieces_first() -> None:
    """Nothing is told between two cuts, and after the last each token at once."""
    sequence = sequence_of(replace(request([1]), cuts={0: (2, 3)}))
    told = [[(output.text, output.is_whole) for output in say(sequence, token_id)] for token_id in b"abcde"]
    assert told == [[], [("ab", True)], [("c", True)], [("d", False)], [("e", False)]]


@pytest.mark.parametrize("stop", [(), ("x",)], ids=["read when told", "read as it comes"])
def test_sequence_with_cuts_tells_the_same_pieces_together(stop: tuple[str, ...]) -> None:
    sequence = sequence_of(replace(request([1], stop=stop), cuts={0: (2, 3)}))
    for token_id in b"abcde":
        sequence.take(token_id, 0.0)
    told = [(output.text, tuple(output.text_ends), output.is_whole) for output in sequence.take_outputs()]
    assert told == [("ab", (1, 2), True), ("c", (3,), True), ("de", (4, 5), False)]


@pytest.mark.parametrize("cuts", [(5, 9), (3, 9)])
def test_sequence_that_ends_before_a_cut_tells_what_there_is(cuts: tuple[int, ...]) -> None:
    sequence = sequence_of(replace(request([1]), cuts={0: cuts}))
    told = [say(sequence, token_id) for token_id in (97, 98, END)]
    assert told[:2] == [[], []]
    (last,) = told[2]
    assert (last.text, last.finish_reason, last.is_whole) == ("ab", FinishReason.END_OF_TEXT, True)
