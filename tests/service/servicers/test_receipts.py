"""Receipts of every kind of answer, on a real server with a scripted model."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from sluice.v1 import (
    chat_pb2,
    completion_pb2,
    completion_pb2_grpc,
    prompt_pb2,
    receipt_pb2,
    receipt_pb2_grpc,
    response_pb2,
    response_pb2_grpc,
    sampling_pb2,
    serving_pb2,
    text_generation_pb2,
    text_generation_pb2_grpc,
)

from service.receipts.signing_key import SigningKey, to_jwk
from service.receipts.token_chain import TokenChain
from service.receipts.verification import differences, verify
from tests.service.fakes import MODEL, Rejection, Running, ScriptedRunner, rejection_of, request, running

RECEIPT = serving_pb2.ServingOptions(receipt=True)


@asynccontextmanager
async def signing(tmp_path: Path, *texts: str, **settings: Any) -> AsyncIterator[Running]:
    """Run a server that signs receipts."""
    file = tmp_path / "key.pem"
    if not file.exists():
        SigningKey.create(file)
    async with running(ScriptedRunner(*texts or ("hello",)), receipts={"key_file": file}, **settings) as run:
        yield run


async def keys_of(run: Running) -> list[dict[str, str]]:
    stub: Any = receipt_pb2_grpc.ReceiptServiceStub(run.channel)
    keys = (await stub.ListReceiptKeys(receipt_pb2.ListReceiptKeysRequest())).keys
    assert all(to_jwk(key.public_key)["kid"] == key.id for key in keys)
    return [to_jwk(key.public_key) for key in keys]


async def streamed_chat(run: Running, message: chat_pb2.ChatRequest) -> list[chat_pb2.StreamChatResponse]:
    return [event async for event in run.chat.StreamChat(message)]


def replayed(message: Any, claims: dict[str, Any]) -> Any:
    """Return the request that computes the answer of a receipt again."""
    again = type(message)()
    again.CopyFrom(message)
    for name, text in claims["resume"].items():
        setattr(again.resume, name, base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    again.resume.replay = True
    return again


async def rejected(run: Running, message: chat_pb2.ChatRequest) -> Rejection:
    return await rejection_of(run.chat.StreamChat(message))


async def test_receipt_has_the_digest_of_all_tokens_of_each_choice(tmp_path: Path) -> None:
    """It is signed by the published key, and equal for the stream and the whole answer but for their identity."""
    async with signing(tmp_path, "hello there", "you") as run:
        message = request(n=2, serving=RECEIPT, tokens={"ids": True}, sampling=sampling_pb2.SamplingParams(seed=7))
        answer = await run.chat.Chat(message)
        claims = verify(answer.receipt, await keys_of(run))
        for choice, tokens in zip(answer.choices, claims["tokens"], strict=True):
            chain = TokenChain()
            chain.add(choice.token_ids)
            assert tokens == chain.claim()
        assert (claims["jti"], claims["iat"]) == (answer.id, answer.created.seconds)
        assert (claims["model"], claims["system_fingerprint"], claims["seed"]) == (MODEL, "fp", "7")
        assert claims["weights"] == "0" * 64
        events = await streamed_chat(run, message)
        assert not list(differences(claims, verify(events[-1].completed.receipt, await keys_of(run))))


async def test_answer_has_no_receipt_unless_it_is_requested(tmp_path: Path) -> None:
    async with signing(tmp_path) as run:
        assert not (await run.chat.Chat(request())).receipt


async def test_replayed_answer_has_the_same_receipt_to_the_byte(tmp_path: Path) -> None:
    """The request, resumed at its beginning by the claim `resume`, gets the answer again: id, time, seed, tokens."""
    async with signing(tmp_path, "hello there", "you") as run:
        for fields in ({}, {"n": 3}, {"stopping": sampling_pb2.StopParams(stop=["ere"])}):
            message = request(serving=RECEIPT, **fields)
            receipt = (await run.chat.Chat(message)).receipt
            claims = verify(receipt, await keys_of(run))
            events = await streamed_chat(run, replayed(message, claims))
            assert events[-1].completed.receipt == receipt
            assert events[0].started.id == claims["jti"]


async def test_receipt_of_a_resumed_stream_covers_the_whole_answer(tmp_path: Path) -> None:
    async with signing(tmp_path, "hello there") as run:
        message = request(serving=serving_pb2.ServingOptions(receipt=True, separate_tokens=True))
        events = await streamed_chat(run, message)
        cut = events[4]
        again = chat_pb2.ChatRequest()
        again.CopyFrom(message)
        again.resume.stream, again.resume.position = events[0].stream, cut.position
        again.resume.sequence_number = cut.sequence_number
        assert (await streamed_chat(run, again))[-1].completed.receipt == events[-1].completed.receipt


async def test_other_request_is_not_replayed(tmp_path: Path) -> None:
    """A changed prompt, parameter, seed or limit: CANNOT_RESUME before any token is generated."""
    async with signing(tmp_path) as run:
        message = request(serving=RECEIPT)
        claims = verify((await run.chat.Chat(message)).receipt, await keys_of(run))
        num_steps = run.runner.num_steps
        for other in (
            request("ho", serving=RECEIPT),
            request(serving=RECEIPT, sampling=sampling_pb2.SamplingParams(temperature=0.5)),
            request(serving=RECEIPT, sampling=sampling_pb2.SamplingParams(seed=2)),
            request(serving=RECEIPT, stopping=sampling_pb2.StopParams(max_tokens=3)),
        ):
            rejection = await rejected(run, replayed(other, claims))
            assert rejection.code is grpc.StatusCode.FAILED_PRECONDITION
            assert rejection.info.reason == "CANNOT_RESUME"
        assert run.runner.num_steps == num_steps


async def test_every_kind_of_answer_has_a_receipt_whole_and_streamed(tmp_path: Path) -> None:
    """Completions of several prompts, responses and text generations, each replayed to the byte."""
    async with signing(tmp_path, "hello there", "you") as run:
        keys = await keys_of(run)
        completion: Any = completion_pb2_grpc.CompletionServiceStub(run.channel)
        prompts = [prompt_pb2.Prompt(text="a"), prompt_pb2.Prompt(text="b")]
        message = completion_pb2.CompleteRequest(model=MODEL, prompts=prompts, n=2, serving=RECEIPT)
        receipt = (await completion.Complete(message)).receipt
        assert len(verify(receipt, keys)["tokens"]) == 4
        again = replayed(message, verify(receipt, keys))
        assert [each async for each in completion.StreamComplete(again)][-1].completed.receipt == receipt

        text: Any = text_generation_pb2_grpc.TextGenerationServiceStub(run.channel)
        text_message = text_generation_pb2.GenerateTextRequest(model=MODEL, text_input="a", serving=RECEIPT)
        receipt = (await text.GenerateText(text_message)).receipt
        again = replayed(text_message, verify(receipt, keys))
        assert [each async for each in text.StreamGenerateText(again)][-1].completed.receipt == receipt

        response: Any = response_pb2_grpc.ResponseServiceStub(run.channel)
        item = {"message": {"role": "ROLE_USER", "content": [{"text": "hi"}]}}
        for limit in (None, 2):
            response_message = response_pb2.CreateResponseRequest(
                model=MODEL, input=[item], serving=RECEIPT, max_output_tokens=limit
            )
            receipt = (await response.CreateResponse(response_message)).response.receipt
            again = replayed(response_message, verify(receipt, keys))
            last = [each async for each in response.StreamResponse(again)][-1]
            assert getattr(last, last.WhichOneof("event")).response.receipt == receipt


async def test_receipt_without_a_key_is_rejected_with_the_setting_to_set() -> None:
    async with running() as run:
        rejection = await rejected(run, request(serving=RECEIPT))
        assert rejection.code is grpc.StatusCode.INVALID_ARGUMENT
        assert rejection.info.reason == "UNSUPPORTED_FEATURE"
        assert "receipts.key_file" in rejection.text
        assert rejection.fields[0][0] == "serving.receipt"
        assert await keys_of(run) == []


async def test_receipt_of_a_backend_that_varies_is_rejected(tmp_path: Path) -> None:
    async with signing(tmp_path, supports_resume=False) as run:
        assert "same tokens twice" in (await rejected(run, request(serving=RECEIPT))).text


async def test_receipt_of_too_many_choices_is_rejected(tmp_path: Path) -> None:
    async with signing(tmp_path, "a", engine={"max_batch_sequences": 8}) as run:
        completion: Any = completion_pb2_grpc.CompletionServiceStub(run.channel)
        prompts = [prompt_pb2.Prompt(text="a")] * 3
        message = completion_pb2.CompleteRequest(model=MODEL, prompts=prompts, n=43, serving=RECEIPT)
        assert "at most 128 choices" in (await rejection_of(completion.Complete(message))).text


async def test_deadline_fails_an_answer_with_a_receipt_instead_of_ending_it(tmp_path: Path) -> None:
    """ERROR_BEHAVIOR_TRUNCATE would end it by the time, which no replay could repeat."""
    async with signing(tmp_path, engine={"max_model_len": 1_000_000, "num_blocks": 250_000}) as run:
        run.runner.gate.clear()
        options = serving_pb2.ServingOptions(receipt=True, error_behavior=serving_pb2.ERROR_BEHAVIOR_TRUNCATE)
        rejection = await rejection_of(run.chat.StreamChat(request(serving=options), timeout=0.3))
        run.runner.gate.set()
        assert rejection.code is grpc.StatusCode.DEADLINE_EXCEEDED


@pytest.mark.parametrize("content", [None, "nothing"], ids=["missing", "no key"])
async def test_server_does_not_start_without_its_key(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "key.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(Exception, match=r"receipts\.key_file: .*key\.pem"):
        async with running(receipts={"key_file": file}):
            pass
