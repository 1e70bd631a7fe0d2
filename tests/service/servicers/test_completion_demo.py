"""CompletionService with the bundled model: batched prompts, echo, logprobs and scores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import torch
from grpc import aio
from sluice.v1 import chat_pb2, chat_pb2_grpc, completion_pb2_grpc, logprobs_pb2, sampling_pb2
from transformers import AutoModelForCausalLM

from service.contract.generations.completion_fold import CompletionFold
from service.engine.interface.port import StepObserver
from service.loading.model import load_model
from service.observability.telemetry import Telemetry
from service.registry.models import ServedModel
from service.server.server import Server
from service.settings.bundled_models import DEMO_FOLDER
from service.settings.engine_settings import EngineSettings
from service.settings.model_settings import ModelSettings
from tests.service.fakes import request, settings_of
from tests.service.servicers.test_completion import complete

PROMPTS = ("The gateway", "Once upon a time", "The gateway", "1, 2, 3,")
CHAT = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
GREEDY = sampling_pb2.SamplingParams(temperature=0)
SEEDED = sampling_pb2.SamplingParams(temperature=2, seed=11)
SHORT = sampling_pb2.StopParams(max_tokens=12, ignore_eos=True)


@asynccontextmanager
async def serving() -> AsyncIterator[aio.Channel]:
    """Return a channel to a server with the bundled model, under the name of the tests' scripted model."""
    torch.set_num_threads(1)
    telemetry = Telemetry(None)
    settings = settings_of()
    server = Server(settings, telemetry)

    async def load(model: ModelSettings, observer: StepObserver) -> ServedModel:
        filled = ModelSettings(
            name=model.name,
            path=str(DEMO_FOLDER),
            dtype="float32",
            device="cpu",
            cache_share=1,
            engine=EngineSettings(num_blocks=256, num_threads=1),
        )
        return load_model(filled, observer)

    port = await server.start()
    await server.load(settings.served_models(), load)
    try:
        async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        await server.close()
        telemetry.shutdown()


@pytest.mark.slow
async def test_seeded_texts_are_equal_batched_and_alone() -> None:
    """With a seed, a prompt's choices don't depend on other prompts; two equal prompts get equal texts."""
    async with serving() as channel:
        stub: Any = completion_pb2_grpc.CompletionServiceStub(channel)
        together = await stub.Complete(complete(*PROMPTS, n=2, sampling=SEEDED, stopping=SHORT))
        for index, prompt in enumerate(PROMPTS):
            alone = await stub.Complete(complete(prompt, n=2, sampling=SEEDED, stopping=SHORT))
            texts = [choice.text for choice in together.choices if choice.prompt_index == index]
            assert [choice.text for choice in alone.choices] == texts
    assert together.choices[0].text == together.choices[4].text != together.choices[1].text


@pytest.mark.slow
async def test_equal_prompts_without_a_seed_get_different_answers() -> None:
    """Without a seed, prompts are sampled independently; the seed in the stream reproduces the first answer."""
    sampling = sampling_pb2.SamplingParams(temperature=2)
    async with serving() as channel:
        stub: Any = completion_pb2_grpc.CompletionServiceStub(channel)
        events = [event async for event in stub.StreamComplete(complete(*[PROMPTS[0]] * 4, sampling=sampling))]
        fold = CompletionFold()
        for event in events:
            fold.add(event)
        texts = [choice.text for choice in fold.response.choices]
        sampling.seed = events[0].started.sampling.seed
        again = await stub.Complete(complete(PROMPTS[0], sampling=sampling))
    assert len(set(texts)) == 4
    assert again.choices[0].text == texts[0]


@pytest.mark.slow
async def test_echoed_tokens_have_the_logprobs_of_their_generation() -> None:
    """A generated text that is sent back as a prompt gets the logprobs with which it was generated."""
    ask = logprobs_pb2.LogprobsOptions(top_logprobs=3)
    async with serving() as channel:
        stub: Any = completion_pb2_grpc.CompletionServiceStub(channel)
        request_ = complete(CHAT, sampling=GREEDY, logprobs=ask, echo=True)
        request_.stopping.max_tokens = 12
        (first,) = (await stub.Complete(request_)).choices
        scored_tokens = [*first.prompt_logprobs, *first.logprobs]
        again = complete([each.token_id for each in scored_tokens], sampling=GREEDY, logprobs=ask, echo=True)
        again.stopping.max_tokens = 1
        (second,) = (await stub.Complete(again)).choices
    assert second.text.startswith(first.text)
    assert first.text == b"".join(each.bytes for each in scored_tokens).decode(errors="replace")
    assert [each.token_id for each in second.prompt_logprobs] == [each.token_id for each in scored_tokens]
    for one, other in zip(scored_tokens, second.prompt_logprobs, strict=True):
        assert one.logprob == pytest.approx(other.logprob, abs=1e-3)
        best = [each.logprob for each in one.top_logprobs]
        assert best == pytest.approx([each.logprob for each in other.top_logprobs], abs=1e-3)


@pytest.mark.slow
async def test_prompt_logprobs_equal_those_of_transformers() -> None:
    """The echoed prompt has the logprobs of transformers, plus one entry for the generated token.

    Benchmarks score continuations this way. The answer ends with the token that ends the turn, which has no text.
    """
    ask = logprobs_pb2.LogprobsOptions()
    async with serving() as channel:
        stub: Any = completion_pb2_grpc.CompletionServiceStub(channel)
        whole = (await stub.Complete(complete(CHAT, sampling=GREEDY, logprobs=ask, echo=True))).choices[0]
        prompt = [each.token_id for each in (*whole.prompt_logprobs, *whole.logprobs)][:-1]
        again = complete(prompt, sampling=GREEDY, logprobs=ask, echo=True)
        again.stopping.max_tokens = 1
        (scored,) = (await stub.Complete(again)).choices
        again.prompt_only = True
        (alone,) = (await stub.Complete(again)).choices
    assert whole.finish_reason == scored.finish_reason == chat_pb2.FINISH_REASON_STOP
    assert (alone.text, list(alone.logprobs)) == (scored.text, [])
    assert list(alone.prompt_logprobs) == list(scored.prompt_logprobs)
    token_ids = [*prompt, whole.logprobs[-1].token_id]
    found = [each.logprob for each in (*scored.prompt_logprobs, *scored.logprobs)]
    model: Any = AutoModelForCausalLM.from_pretrained(DEMO_FOLDER, dtype=torch.float32)
    with torch.inference_mode():
        logits = model(torch.tensor([token_ids[:-1]])).logits[0].log_softmax(-1)
    expected = logits.gather(1, torch.tensor(token_ids[1:])[:, None])[:, 0]
    assert len(found) == len(token_ids)
    assert found[1:] == pytest.approx(expected.tolist(), abs=2e-3)
    assert sum(found[1:]) == pytest.approx(float(expected.sum()), abs=2e-2)


@pytest.mark.slow
async def test_prompt_in_the_template_is_answered_as_a_chat() -> None:
    """Without `use_raw_prompt`, the text equals the answer to the same chat."""
    stopping = sampling_pb2.StopParams(max_tokens=40)
    async with serving() as channel:
        stub: Any = completion_pb2_grpc.CompletionServiceStub(channel)
        chats: Any = chat_pb2_grpc.ChatServiceStub(channel)
        completion = await stub.Complete(
            complete("Hello, who are you?", sampling=GREEDY, stopping=stopping, use_raw_prompt=False)
        )
        answer: chat_pb2.ChatResponse = await chats.Chat(
            request("Hello, who are you?", sampling=GREEDY, stopping=stopping)
        )
    assert completion.choices[0].text == answer.choices[0].message.content[0].text != ""
    assert completion.usage.prompt_tokens == answer.usage.prompt_tokens
