"""Whole completion requests: from prompts to tokens, from tokens to events."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluice.v1 import chat_pb2, completion_pb2, logprobs_pb2, model_pb2, prompt_pb2, sampling_pb2, serving_pb2

from service.generation.errors import InvalidRequest, PromptTooLong, UnsupportedConstraint, UnsupportedFeature
from service.generation.output import FinishReason, GenerationOutput, TokenLogprob
from service.pipeline.chat import ChatPipeline
from service.pipeline.completion import CompletionPipeline
from service.pipeline.completion_fold import CompletionFold
from service.pipeline.prepared import Identity
from service.pipeline.prepared_completion import PreparedCompletion
from tests.pipeline.chat_cases import END_ID, SCHEMA, TOKENIZER
from tests.pipeline.fakes import END, babble, outputs_of, pipeline_of

TRUNCATE = serving_pb2.ServingOptions(error_behavior=serving_pb2.ERROR_BEHAVIOR_TRUNCATE)
LOGPROBS = logprobs_pb2.LogprobsOptions(top_logprobs=1)


@pytest.fixture(scope="module")
def completions(pipeline: ChatPipeline) -> CompletionPipeline:
    """A pipeline beside that of the same model's chats."""
    return CompletionPipeline(TOKENIZER, 4096, [END_ID], pipeline)


@pytest.fixture(scope="module")
def untemplated() -> Iterator[CompletionPipeline]:
    """The pipeline of a model without a chat template."""
    pipeline = CompletionPipeline(TOKENIZER, 4096, [END_ID], None)
    yield pipeline
    pipeline.close()


def request_of(*prompts: str | list[int], **fields: Any) -> completion_pb2.CompleteRequest:
    return completion_pb2.CompleteRequest(
        model="tiny",
        prompts=[
            prompt_pb2.Prompt(text=prompt)
            if isinstance(prompt, str)
            else prompt_pb2.Prompt(token_ids=prompt_pb2.TokenIds(ids=prompt))
            for prompt in prompts or ("hello",)
        ],
        **fields,
    )


def said(request_index: int, text: str, choice_index: int = 0, **how: Any) -> list[GenerationOutput]:
    """What the engine tells where a model answers one of the prompts with `text`."""
    outputs = outputs_of(TOKENIZER, [*TOKENIZER.encode(text), END_ID], choice_index=choice_index, **how)
    return [replace(output, request_index=request_index) for output in outputs]


def answer_of(prepared: PreparedCompletion, outputs: Sequence[GenerationOutput]) -> completion_pb2.CompleteResponse:
    folding = CompletionFold()
    for event in prepared.started(Identity.now(model_pb2.Model(name="tiny"))):
        folding.add(event)
    for output in outputs:
        for event in prepared.events(output):
            folding.add(event)
    for event in prepared.completed():
        folding.add(event)
    return folding.response


async def test_raw_prompts_are_taken_as_they_are(completions: CompletionPipeline) -> None:
    """Text is encoded without a template, control tokens that it spells included; token ids stay what they are."""
    text = f"hello <|im_start|>{END}"
    prepared = await completions.prepare(request_of(text, [5, 6, END_ID], text, use_raw_prompt=True), "r")
    prompts = [generation.prompt_token_ids for generation in prepared.generations]
    assert prompts == [TOKENIZER.encode(text), [5, 6, END_ID], TOKENIZER.encode(text)]
    assert END_ID in prompts[0]


async def test_every_prompt_has_what_the_request_asks_for(completions: CompletionPipeline) -> None:
    """Each engine request has all parameters, a given seed too; the room for the answer is each prompt's own."""
    request = request_of(
        "hello",
        [1, 2, 3],
        n=3,
        sampling=sampling_pb2.SamplingParams(temperature=0.5, seed=9),
        stopping=sampling_pb2.StopParams(stop=["x"]),
        logprobs=LOGPROBS,
        serving=serving_pb2.ServingOptions(priority=-3, cache_salt="tenant"),
    )
    prepared = await completions.prepare(request, "r")
    for generation in prepared.generations:
        assert (generation.request_id, generation.n, generation.logprobs) == ("r", 3, 1)
        assert (generation.sampling.temperature, generation.stopping.stop) == (0.5, ("x",))
        assert (generation.priority, generation.cache_salt) == (-3, "tenant")
        assert generation.stopping.max_tokens == 4096 - len(generation.prompt_token_ids)
        assert generation.prompt_logprobs is None
    assert [generation.sampling.seed for generation in prepared.generations] == [9, 9] == [prepared.sampling.seed] * 2
    assert prepared.stopping.max_tokens == 4096 - min(len(TOKENIZER.encode("hello")), 3)


async def test_prompt_in_the_template_is_a_user_s_message(completions: CompletionPipeline) -> None:
    """Without `use_raw_prompt` a text is a chat, thinking apart; tokens beside it stay raw, and have the next seed."""
    request = request_of("hello<|im_end|>", [1, 2], use_raw_prompt=False, echo=True, logprobs=LOGPROBS)
    prepared = await completions.prepare(request, "r")
    templated, raw = prepared.generations
    assert TOKENIZER.decode(templated.prompt_token_ids, skip_special_tokens=False) == (
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nhello<|im_end|><|im_end|>\n<|im_start|>assistant\n"
    )
    assert list(templated.prompt_token_ids).count(END_ID) == 2
    assert raw.prompt_token_ids == [1, 2]
    assert templated.sampling.seed == prepared.sampling.seed
    assert raw.sampling.seed == (prepared.sampling.seed + 1) % 2**63
    outputs = [*said(0, "<think>so so</think>\n\nHi"), *said(1, "<think>raw</think>")]
    response = answer_of(prepared, outputs)
    echo = TOKENIZER.decode([1, 2])
    assert [choice.text for choice in response.choices] == ["hello<|im_end|>Hi", f"{echo}<think>raw</think>"]
    assert b"".join(logprob.bytes for logprob in response.choices[0].logprobs) == b"Hi"
    assert response.usage.reasoning_tokens == len(TOKENIZER.encode("<think>so so</think>\n\n"))


async def test_model_without_a_template_takes_raw_prompts_only(untemplated: CompletionPipeline) -> None:
    """Texts can't be put into a template that isn't there; tokens never are."""
    with pytest.raises(UnsupportedFeature) as refusal:
        await untemplated.prepare(request_of("hello", use_raw_prompt=False), "r")
    assert refusal.value.field == "use_raw_prompt"
    prepared = await untemplated.prepare(request_of([1, 2], use_raw_prompt=False), "r")
    assert prepared.generations[0].prompt_token_ids == [1, 2]


@pytest.mark.parametrize("is_raw", [True, False])
@pytest.mark.parametrize("seed", range(8))
async def test_constraint_holds_for_each_prompt(completions: CompletionPipeline, seed: int, *, is_raw: bool) -> None:
    """A schema is enforced for every prompt, raw or in the template, after thinking or not."""
    rng = random.Random(seed)
    schema = sampling_pb2.JsonSchema(name="x", schema=json.dumps(SCHEMA))
    constraint = sampling_pb2.OutputConstraint(json_schema=schema)
    prepared = await completions.prepare(
        request_of("hello", "other", output_constraint=constraint, use_raw_prompt=is_raw), "r"
    )
    outputs = []
    for index, generation in enumerate(prepared.generations):
        assert generation.constraint is not None
        words = babble(generation.constraint.fork(), TOKENIZER, END_ID, rng, max_tokens=12_000)
        outputs += [replace(output, request_index=index) for output in outputs_of(TOKENIZER, words)]
    for choice in answer_of(prepared, outputs).choices:
        jsonschema.validate(json.loads(choice.text), SCHEMA)


async def test_constraint_works_without_a_template(untemplated: CompletionPipeline) -> None:
    """A model without a chat template has grammars too, and refuses those that can't be enforced."""
    constraint = sampling_pb2.OutputConstraint(regex="[0-9]{3}")
    prepared = await untemplated.prepare(request_of(output_constraint=constraint), "r")
    assert prepared.generations[0].constraint is not None
    words = babble(prepared.generations[0].constraint, TOKENIZER, END_ID, random.Random(0))
    assert TOKENIZER.decode(words).isdigit()
    with pytest.raises(UnsupportedConstraint) as refusal:
        await untemplated.prepare(request_of(output_constraint=sampling_pb2.OutputConstraint(regex="(")), "r")
    assert refusal.value.field == "output_constraint.regex"


@pytest.mark.parametrize("is_raw", [True, False])
async def test_prompt_that_is_too_long_is_named(completions: CompletionPipeline, *, is_raw: bool) -> None:
    """The error has the prompt's place, raw or in the template; a request that truncates is served."""
    request = request_of("a", "0123456789" * 1000, use_raw_prompt=is_raw)
    with pytest.raises(PromptTooLong) as refusal:
        await completions.prepare(request, "r")
    assert refusal.value.field == "prompts[1]"
    request.serving.CopyFrom(TRUNCATE)
    request.stopping.max_tokens = 96
    prepared = await completions.prepare(request, "r")
    assert 3900 < len(prepared.generations[1].prompt_token_ids) <= 4000


async def test_encoding_has_a_time_limit(untemplated: CompletionPipeline) -> None:
    """Prompts that take too long to encode are the request's fault; the loop goes on meanwhile."""
    release = threading.Event()
    pipeline = CompletionPipeline(TOKENIZER, 4096, [END_ID], pipeline_of())
    pipeline.workers.limits = replace(pipeline.workers.limits, max_render_s=0.1)
    pipeline._draft = lambda *_, **__: release.wait(30)  # type: ignore[assignment, method-assign]
    with pytest.raises(InvalidRequest, match=r"longer than 0\.1 s") as refusal:
        await pipeline.prepare(request_of(), "r")
    assert refusal.value.field == "prompts"
    release.set()
    pipeline.close()


async def test_echo_has_the_prompt_s_logprobs(completions: CompletionPipeline) -> None:
    """Each choice begins with the prompt's text and the logprobs of its tokens; the first token's is 0, alone."""
    prepared = await completions.prepare(request_of("hello", [7], n=2, echo=True, logprobs=LOGPROBS), "r")
    assert [generation.prompt_logprobs for generation in prepared.generations] == [1, 1]
    prompt = TOKENIZER.encode("hello")
    told = [TokenLogprob(token_id, -0.5, ((9, -0.25),)) for token_id in prompt[1:]]
    first, *rest = said(0, "yes")
    outputs = [
        replace(first, prompt_logprobs=told),
        *said(0, "no", 1),
        *rest,
        *said(1, "a"),
        *said(1, "b", 1),
    ]
    choices = answer_of(prepared, outputs).choices
    assert [choice.text for choice in choices][:2] == ["helloyes", "hellono"]
    for choice in choices[:2]:
        assert [logprob.token_id for logprob in choice.prompt_logprobs] == prompt
        assert b"".join(logprob.bytes for logprob in choice.prompt_logprobs) == b"hello"
        assert [logprob.logprob for logprob in choice.prompt_logprobs] == [0.0] + [-0.5] * len(told)
        assert [len(logprob.top_logprobs) for logprob in choice.prompt_logprobs] == [0] + [1] * len(told)
    assert [len(choice.prompt_logprobs) for choice in choices[2:]] == [1, 1]
    assert b"".join(logprob.bytes for logprob in choices[0].logprobs) == b"yes"


async def test_answer_without_text_has_its_echo_and_suffix(completions: CompletionPipeline) -> None:
    """A continuation that ends at once still begins with the prompt and ends with the suffix, in one delta."""
    prepared = await completions.prepare(request_of("hello", echo=True, suffix="!"), "r")
    events = [event for output in said(0, "") for event in prepared.events(output)]
    assert [event.WhichOneof("event") for event in events] == ["delta", "choice_finished"]
    assert events[0].delta.text == "hello!"


async def test_cut_off_prompt_has_no_logprobs(completions: CompletionPipeline) -> None:
    """A prompt that the deadline cut off before it was computed has an echo, and nothing made up beside it."""
    prepared = await completions.prepare(request_of("hello", echo=True, logprobs=LOGPROBS), "r")
    (output,) = said(0, "", reason=FinishReason.LENGTH)
    response = answer_of(prepared, [replace(output, token_ids=(), token_times=(), logprobs=())])
    (choice,) = response.choices
    assert (choice.text, len(choice.prompt_logprobs)) == ("hello", 0)
    assert choice.finish_reason == chat_pb2.FINISH_REASON_LENGTH


@given(data=st.data())
async def test_answer_is_the_same_however_outputs_are_cut_and_interleaved(
    completions: CompletionPipeline, data: st.DataObject
) -> None:
    """Texts, logprobs and ends are those of each choice alone, for every order and every merging of outputs."""
    prepared = await completions.prepare(request_of("ab", [5, 6], n=2, echo=True, suffix="!", logprobs=LOGPROBS), "r")
    texts = {(request, choice): data.draw(st.text(max_size=12)) for request in (0, 1) for choice in (0, 1)}
    queues = []
    for (request, choice), text in texts.items():
        num_tokens = len(TOKENIZER.encode(text)) + 1
        cuts = sorted(data.draw(st.sets(st.integers(1, max(1, num_tokens - 1)), max_size=4))) if num_tokens > 1 else ()
        queues.append(said(request, text, choice, cuts=cuts))
    outputs = []
    while any(queues):
        outputs.append(data.draw(st.sampled_from([queue for queue in queues if queue])).pop(0))
    response = answer_of(prepared, outputs)
    echoes = ["ab", TOKENIZER.decode([5, 6])]
    for choice_ in response.choices:
        text = texts[choice_.prompt_index, choice_.index % 2]
        assert choice_.text == echoes[choice_.prompt_index] + text + "!"
        assert b"".join(logprob.bytes for logprob in choice_.logprobs) == text.encode()
    num_tokens = sum(len(TOKENIZER.encode(text)) + 1 for text in texts.values())
    assert response.usage.completion_tokens == num_tokens
