"""Whole completions: from prompts to the engine's requests, and from its outputs to messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluice.v1 import chat_pb2, completion_pb2, logprobs_pb2, sampling_pb2, serving_pb2

from service.answering.kind import COMPLETION
from service.generation.errors import PromptTooLong, TemplateRejected, UnsupportedFeature
from service.generation.outputs.output import FinishReason, GenerationOutput, TokenLogprob
from service.generation.requests.parameters import LogprobsOptions
from service.prompting.preparation import Preparation
from tests.engine.constraints.fakes import END
from tests.service.contract.fakes import completion_request
from tests.service.output.fakes import outputs_of
from tests.service.preparation.fakes import END_ID, TOKENIZER, Exchange, exchange, preparation_of

Completion: TypeAlias = Exchange[
    completion_pb2.CompleteRequest, completion_pb2.StreamCompleteResponse, completion_pb2.CompleteResponse
]

TRUNCATE = serving_pb2.ServingOptions(error_behavior=serving_pb2.ERROR_BEHAVIOR_TRUNCATE)
LOGPROBS = logprobs_pb2.LogprobsOptions(top_logprobs=1)


@pytest.fixture(scope="module")
def untemplated() -> Iterator[Preparation]:
    """Yield the preparation of a model without a chat template."""
    preparation = preparation_of(None)
    yield preparation
    preparation.close()


async def completion_of(preparation: Preparation, *prompts: str | list[int], **fields: Any) -> Completion:
    return await exchange(preparation, COMPLETION, completion_request(*prompts, **fields))


def outputs_for(request_index: int, text: str, choice_index: int = 0, **how: Any) -> list[GenerationOutput]:
    """Return the engine's outputs for an answer `text` to one of the prompts."""
    token_ids = [*TOKENIZER.encode(text), END_ID]
    return list(outputs_of(TOKENIZER, token_ids, choice_index=choice_index, request_index=request_index, **how))


async def test_raw_prompts_are_encoded_without_a_template(preparation: Preparation) -> None:
    """Text is encoded without a template, including control tokens; token ids are unchanged."""
    text = f"hello <|im_start|>{END}"
    completion = await completion_of(preparation, text, [5, 6, END_ID], text, use_raw_prompt=True)
    prompts = [generation.prompt_token_ids for generation in completion.prepared.requests]
    assert prompts == [TOKENIZER.encode(text), [5, 6, END_ID], TOKENIZER.encode(text)]
    assert END_ID in prompts[0]


async def test_every_prompts_engine_request_has_all_parameters(preparation: Preparation) -> None:
    """Each engine request has all parameters, including a given seed; `max_tokens` depends on the prompt's length."""
    completion = await completion_of(
        preparation,
        "hello",
        [1, 2, 3],
        n=3,
        sampling=sampling_pb2.SamplingParams(temperature=0.5, seed=9),
        stopping=sampling_pb2.StopParams(stop=["x"]),
        logprobs=LOGPROBS,
        serving=serving_pb2.ServingOptions(priority=3, cache_salt="tenant"),
    )
    prepared = completion.prepared
    for index, generation in enumerate(prepared.requests):
        assert (generation.request_id, generation.prompt_field) == ("r", f"prompts[{index}]")
        assert (generation.n, generation.logprobs) == (3, LogprobsOptions(1))
        assert (generation.sampling.temperature, generation.stopping.stop) == (0.5, ("x",))
        assert (generation.priority, generation.cache_salt) == (3, "tenant")
        assert generation.stopping.max_tokens == 4096 - len(generation.prompt_token_ids)
        assert generation.prompt_logprobs is None
    assert [generation.sampling.seed for generation in prepared.requests] == [9, 9] == [prepared.sampling.seed] * 2
    assert prepared.stopping.max_tokens == 4096 - min(len(TOKENIZER.encode("hello")), 3)


async def test_templated_prompt_is_a_user_message(preparation: Preparation) -> None:
    """Without `use_raw_prompt` a text is a chat with separate reasoning; token prompts stay raw, with the next seed."""
    completion = await completion_of(
        preparation, "hello<|im_end|>", [1, 2], use_raw_prompt=False, echo=True, logprobs=LOGPROBS
    )
    templated, raw = completion.prepared.requests
    assert TOKENIZER.decode(templated.prompt_token_ids, skip_special_tokens=False) == (
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nhello<|im_end|><|im_end|>\n<|im_start|>assistant\n"
    )
    assert list(templated.prompt_token_ids).count(END_ID) == 2
    assert raw.prompt_token_ids == [1, 2]
    seed = completion.prepared.sampling.seed
    assert seed is not None
    assert (templated.sampling.seed, raw.sampling.seed) == (seed, (seed + 1) % 2**63)
    response = completion.answer([*outputs_for(0, "<think>so so</think>\n\nHi"), *outputs_for(1, "<think>raw</think>")])
    echo = TOKENIZER.decode([1, 2])
    assert [choice.text for choice in response.choices] == ["hello<|im_end|>Hi", f"{echo}<think>raw</think>"]
    assert b"".join(logprob.bytes for logprob in response.choices[0].logprobs) == b"Hi"
    assert response.usage.reasoning_tokens == len(TOKENIZER.encode("<think>so so</think>\n\n"))


async def test_model_without_a_template_accepts_only_raw_prompts(untemplated: Preparation) -> None:
    """Texts need a template, and token prompts don't."""
    with pytest.raises(UnsupportedFeature) as caught:
        await completion_of(untemplated, "hello", use_raw_prompt=False)
    assert caught.value.field == "use_raw_prompt"
    completion = await completion_of(untemplated, [1, 2], use_raw_prompt=False)
    assert completion.prepared.requests[0].prompt_token_ids == [1, 2]


async def test_template_error_names_the_prompts_field() -> None:
    """The template's message is reported for the prompt's field."""
    preparation = preparation_of("{{ raise_exception('No.') if messages[0].content == 'b' }}")
    with pytest.raises(TemplateRejected, match=r"No\.") as caught:
        await completion_of(preparation, "a", "b", use_raw_prompt=False)
    assert caught.value.field == "prompts[1]"
    preparation.close()


@pytest.mark.parametrize("is_raw", [True, False])
async def test_error_about_a_long_prompt_names_its_field(preparation: Preparation, *, is_raw: bool) -> None:
    """The error has the prompt's field, raw or in the template; a request that truncates is served."""
    prompts = ("a", "0123456789" * 1000)
    with pytest.raises(PromptTooLong) as caught:
        await completion_of(preparation, *prompts, use_raw_prompt=is_raw)
    assert caught.value.field == "prompts[1]"
    stopping = sampling_pb2.StopParams(max_tokens=96)
    completion = await completion_of(preparation, *prompts, use_raw_prompt=is_raw, serving=TRUNCATE, stopping=stopping)
    assert 3900 < len(completion.prepared.requests[1].prompt_token_ids) <= 4000


async def test_echo_has_the_prompts_logprobs(preparation: Preparation) -> None:
    """Each choice begins with the prompt's text and the logprobs of its tokens; the first token's is 0, alone."""
    completion = await completion_of(preparation, "hello", [7], n=2, echo=True, logprobs=LOGPROBS)
    options = [generation.prompt_logprobs for generation in completion.prepared.requests]
    assert options == [LogprobsOptions(1)] * 2
    prompt = TOKENIZER.encode("hello")
    found = [TokenLogprob(token_id, -0.5, ((9, -0.25),)) for token_id in prompt[1:]]
    first, *rest = outputs_for(0, "yes")
    outputs = [
        first._replace(prompt_logprobs=found),
        *outputs_for(0, "no", 1),
        *rest,
        *outputs_for(1, "a"),
        *outputs_for(1, "b", 1),
    ]
    choices = completion.answer(outputs).choices
    assert [choice.text for choice in choices][:2] == ["helloyes", "hellono"]
    for choice in choices[:2]:
        assert [logprob.token_id for logprob in choice.prompt_logprobs] == prompt
        assert b"".join(logprob.bytes for logprob in choice.prompt_logprobs) == b"hello"
        assert [logprob.logprob for logprob in choice.prompt_logprobs] == [0.0] + [-0.5] * len(found)
        assert [len(logprob.top_logprobs) for logprob in choice.prompt_logprobs] == [0] + [1] * len(found)
    assert [len(choice.prompt_logprobs) for choice in choices[2:]] == [1, 1]
    assert b"".join(logprob.bytes for logprob in choices[0].logprobs) == b"yes<|im_end|>"


async def test_empty_continuation_has_echo_and_suffix(preparation: Preparation) -> None:
    """A continuation that ends at once still begins with the prompt and ends with the suffix, in one delta."""
    completion = await completion_of(preparation, "hello", echo=True, suffix="!")
    completion.started()
    events = completion.messages(outputs_for(0, ""))
    assert [event.WhichOneof("event") for event in events] == ["delta", "choice_finished"]
    assert events[0].delta.text == "hello!"


async def test_prompt_ended_by_the_deadline_has_no_logprobs(preparation: Preparation) -> None:
    """A prompt that the deadline cut off before it was computed has an echo without logprobs."""
    completion = await completion_of(preparation, "hello", echo=True, logprobs=LOGPROBS)
    (output,) = outputs_for(0, "", reason=FinishReason.LENGTH)
    response = completion.answer([output._replace(token_ids=(), token_times=(), text_ends=(), logprobs=())])
    (choice,) = response.choices
    assert (choice.text, len(choice.prompt_logprobs)) == ("hello", 0)
    assert choice.finish_reason == chat_pb2.FINISH_REASON_LENGTH


@pytest.mark.slow
@given(data=st.data())
async def test_answer_does_not_depend_on_cuts_and_order_of_outputs(
    preparation: Preparation, data: st.DataObject
) -> None:
    """Texts, logprobs and ends are those of each choice alone, for every order and merging of outputs."""
    completion = await completion_of(preparation, "ab", [5, 6], n=2, echo=True, suffix="!", logprobs=LOGPROBS)
    texts = {(request, choice): data.draw(st.text(max_size=12)) for request in (0, 1) for choice in (0, 1)}
    queues = []
    for (request, choice), text in texts.items():
        num_tokens = len(TOKENIZER.encode(text)) + 1
        cuts = sorted(data.draw(st.sets(st.integers(1, max(1, num_tokens - 1)), max_size=4))) if num_tokens > 1 else ()
        queues.append(outputs_for(request, text, choice, cuts=cuts))
    outputs = []
    while any(queues):
        outputs.append(data.draw(st.sampled_from([queue for queue in queues if queue])).pop(0))
    response = completion.answer(outputs)
    echoes = ["ab", TOKENIZER.decode([5, 6])]
    assert len(response.choices) == 4
    for choice_ in response.choices:
        text = texts[choice_.prompt_index, choice_.index % 2]
        assert choice_.text == echoes[choice_.prompt_index] + text + "!"
        assert b"".join(logprob.bytes for logprob in choice_.logprobs) == text.encode() + b"<|im_end|>"
    num_tokens = sum(len(TOKENIZER.encode(text)) + 1 for text in texts.values())
    assert response.usage.completion_tokens == num_tokens
