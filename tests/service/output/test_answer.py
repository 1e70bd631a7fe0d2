"""Answers to several prompts as one stream: indices, usage, finish reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from service.generation.formats.constraint import ReasoningStart
from service.generation.outputs.events import ChoiceFinished, DecodedLogprob, Event, PromptLogprobs, Text, Tokens, Usage
from service.generation.outputs.output import FinishReason, GenerationOutput, TokenLogprob
from service.generation.requests.parameters import LogprobsOptions
from service.generation.requests.request import GenerationRequest
from service.output.answers.answer import AnswerReader
from service.output.answers.choice import AnswerForm
from service.output.families.object_calls import HERMES
from service.output.families.reasoning_families import THINK
from tests.engine.constraints.fakes import ADDED, END, token_id, tokenizer_of
from tests.service.output.fakes import outputs_of, results_by_choice

TOKENIZER = tokenizer_of(*ADDED)
END_ID = token_id(TOKENIZER, END)
PLAIN = AnswerForm()
CHAT = AnswerForm(THINK, ReasoningStart.MAY_OPEN, HERMES, {"f": {}})
CALL = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'


def requests_of(*prompts: Sequence[int], **fields: Any) -> list[GenerationRequest]:
    return [GenerationRequest("r", prompt, **fields) for prompt in prompts]


def outputs_for(text: str, request_index: int = 0, choice_index: int = 0, **how: Any) -> list[GenerationOutput]:
    """Return the engine's outputs for a text; one output unless cuts are given."""
    token_ids = [*TOKENIZER.encode(text), END_ID]
    how.setdefault("cuts", [len(token_ids)])
    return list(outputs_of(TOKENIZER, token_ids, request_index=request_index, choice_index=choice_index, **how))


def read(reader: AnswerReader, *outputs: GenerationOutput) -> list[Event]:
    return [event for output in outputs for event in reader.read(output)]


def test_choices_are_counted_over_all_prompts() -> None:
    """Choice c of n of prompt p has the index p·n + c in every event."""
    reader = AnswerReader(requests_of([1], [2], [3], n=2), [PLAIN] * 3, TOKENIZER)
    for prompt_index in (2, 0, 1):
        for choice_index in (1, 0):
            (output,) = outputs_for(f"{prompt_index}{choice_index}", prompt_index, choice_index)
            events = reader.read(output)
            assert [type(event) for event in events] == [Tokens, Text, ChoiceFinished]
            index = prompt_index * 2 + choice_index
            assert results_by_choice(events)[index].text == f"{prompt_index}{choice_index}"
            first = events[0]
            assert isinstance(first, Tokens)
            assert first.choice_index == index


def test_each_output_begins_with_the_engines_tokens() -> None:
    """Each output begins with the tokens of the step, even if no text is known yet."""
    reader = AnswerReader(requests_of([1]), [CHAT], TOKENIZER)
    for output in outputs_for("<think>hm</think>Hello", cuts=()):
        first, *rest = reader.read(output)
        expected = Tokens(0, output.token_ids, output.token_times, output.timings, output.batch_size)
        assert first == expected
        assert not any(isinstance(event, Tokens) for event in rest)


def test_usage_is_the_sum_over_prompts_and_choices() -> None:
    """Each prompt and its cached part count once, and the tokens of each choice count, from the first output on."""
    reader = AnswerReader(requests_of([1, 2, 3], [4], n=2), [CHAT, PLAIN], TOKENIZER)
    assert reader.usage() == Usage(prompt_tokens=4)
    reasoned = "<think>hm</think>"
    first, second = outputs_for(reasoned + "a")[0], outputs_for("b", choice_index=1)[0]
    read(reader, first._replace(num_cached_tokens=2), second._replace(num_cached_tokens=2))
    read(reader, *outputs_for(reasoned, request_index=1), *outputs_for("c", 1, 1))
    num_reasoned = len(TOKENIZER.encode(reasoned))
    assert reader.usage() == Usage(
        prompt_tokens=4,
        completion_tokens=(num_reasoned + 2) + 2 + (num_reasoned + 1) + 2,
        reasoning_tokens=num_reasoned,  # in the plain prompt's answer, markers are text
        cached_tokens=2,
    )


def test_finish_reasons_are_in_the_order_of_the_choices() -> None:
    """Reasons are in the order of the choices, whichever ended first; calls have a separate reason."""
    reader = AnswerReader(requests_of([1], [2], n=2), [CHAT, PLAIN], TOKENIZER)
    assert reader.finish_reasons() == []
    read(reader, *outputs_for(CALL, 1, 1))
    assert reader.finish_reasons() == [FinishReason.END_OF_TEXT]  # a plain answer has no calls
    read(reader, *outputs_for("cut", 0, 1, reason=FinishReason.LENGTH))
    read(reader, *outputs_for(CALL))
    assert reader.finish_reasons() == [FinishReason.TOOL_CALLS, FinishReason.LENGTH, FinishReason.END_OF_TEXT]
    read(reader, *outputs_for("x", 1, 0))
    assert len(reader.finish_reasons()) == 4


def test_calls_are_numbered_within_their_choice() -> None:
    """Each call has a unique id."""
    reader = AnswerReader(requests_of([1], n=2), [CHAT], TOKENIZER)
    choices = results_by_choice(read(reader, *outputs_for(CALL + CALL), *outputs_for(CALL, choice_index=1)))
    assert [len(choices[index].calls) for index in (0, 1)] == [2, 1]
    ids = [call_id for choice in choices.values() for call_id in choice.call_ids]
    assert len(set(ids)) == 3


def test_prompt_logprobs_are_emitted_once_per_prompt() -> None:
    """Requested prompt logprobs precede everything of the prompt's answers."""
    prompts = [TOKENIZER.encode("ab"), TOKENIZER.encode("c")]
    reader = AnswerReader(requests_of(*prompts, n=2, prompt_logprobs=LogprobsOptions()), [PLAIN] * 2, TOKENIZER)
    (first,), (second,) = outputs_for("x"), outputs_for("y", choice_index=1)
    a, b = prompts[0]
    events = reader.read(first._replace(prompt_logprobs=[TokenLogprob(b, -1.5)]))
    assert events[1] == PromptLogprobs(0, [DecodedLogprob(a, b"a", 0.0), DecodedLogprob(b, b"b", -1.5)])
    rest = [*reader.read(second), *read(reader, *outputs_for("z", 1), *outputs_for("z", 1, 1))]
    assert [event.prompt_index for event in rest if isinstance(event, PromptLogprobs)] == [1]


def test_hidden_special_tokens_have_no_text() -> None:
    """If the engine shows special tokens, they are text; if it hides them, they have none."""
    requests = requests_of([1], logprobs=LogprobsOptions()) + requests_of(
        [2], logprobs=LogprobsOptions(), skip_special_tokens=False
    )
    reader = AnswerReader(requests, [PLAIN] * 2, TOKENIZER)
    choices = results_by_choice(
        read(reader, *outputs_for("a<|im_start|>b"), *outputs_for("a<|im_start|>b", 1, hides_special=False))
    )
    assert [choices[index].text for index in (0, 1)] == ["ab", "a<|im_start|>b"]
    assert [len(choices[index].logprobs) for index in (0, 1)] == [2, 3]
