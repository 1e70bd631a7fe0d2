"""VllmEngine/Generate on a real server: token ids in and out, errors that name fields, and aborts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from sluice.vllm import engine_pb2, engine_pb2_grpc

from tests.engine.byte_tokenizer import END
from tests.engine.fakes import until
from tests.service.fakes import ENDLESS, Running, ScriptedRunner, rejection_of, running
from tests.service.interceptors.guarded import bearing, guarded

PROMPT = list(b"hi")
HELLO = [*b"hello", END]


def stub_of(run: Running) -> Any:
    return engine_pb2_grpc.VllmEngineStub(run.channel)


def request_of(*, stream: bool = True, request_id: str = "r", **fields: Any) -> engine_pb2.GenerateRequest:
    """Return a request for the tokens after PROMPT; `fields` are parameters, or whole fields of the request."""
    known = engine_pb2.GenerateRequest.DESCRIPTOR.fields_by_name
    outer = {name: fields.pop(name) for name in list(fields) if name in known}
    made = engine_pb2.GenerateRequest(request_id=request_id, stream=stream, sampling_params=fields, **outer)
    if made.WhichOneof("input") is None:
        made.tokenized.input_ids.extend(PROMPT)
    return made


async def answers(run: Running, request: engine_pb2.GenerateRequest, **call: Any) -> tuple[list[Any], list[Any]]:
    """Return the chunks of an answer, and the ends of its choices."""
    messages = [each async for each in stub_of(run).Generate(request, **call)]
    chunks = [each.chunk for each in messages if each.HasField("chunk")]
    return chunks, [each.complete for each in messages if each.HasField("complete")]


async def test_streamed_chunks_add_up_to_the_tokens() -> None:
    """The end has the reason and the counts, and no tokens of its own; the token that ends the text is among them."""
    async with running() as run:
        with run.runner.paused(after=1):
            messages = aiter(stub_of(run).Generate(request_of()))
            first = (await anext(messages)).chunk  # while the other tokens are not computed yet
        *rest, last = [each async for each in messages]
    chunks, end = [first, *(each.chunk for each in rest)], last.complete
    assert list(first.token_ids) == HELLO[:1]
    assert [token_id for each in chunks for token_id in each.token_ids] == HELLO
    assert all(each.completion_tokens == len(each.token_ids) for each in chunks)
    assert {each.prompt_tokens for each in chunks} == {len(PROMPT)}
    assert (end.finish_reason, end.prompt_tokens, end.completion_tokens) == ("stop", len(PROMPT), len(HELLO))
    assert not end.output_ids
    assert end.WhichOneof("matched_stop") is None


async def test_whole_answer_is_one_message_per_choice() -> None:
    """Each choice has its index and its own tokens."""
    async with running(ScriptedRunner("hello", "bye")) as run:
        chunks, ends = await answers(run, request_of(stream=False, n=2))
    assert not chunks
    assert [(end.index, list(end.output_ids)) for end in ends] == [(0, HELLO), (1, [*b"bye", END])]


@pytest.mark.parametrize("stream", [True, False])
async def test_end_names_what_stopped_the_choice(stream: bool) -> None:  # noqa: FBT001
    """A stop string and a stop token are named; the answer's tokens include those of the stop string."""
    async with running(ScriptedRunner("hello ", end=False)) as run:
        _, (by_text,) = await answers(run, request_of(stream=stream, stop=["lo"]))
        _, (by_token,) = await answers(run, request_of(stream=stream, stop_token_ids=[ord("e")]))
        _, (by_length,) = await answers(run, request_of(stream=stream, max_tokens=3))
    assert (by_text.finish_reason, by_text.matched_stop_str, by_text.completion_tokens) == ("stop", "lo", 5)
    assert (by_token.finish_reason, by_token.matched_token_id, by_token.completion_tokens) == ("stop", ord("e"), 2)
    assert (by_length.finish_reason, by_length.WhichOneof("matched_stop"), by_length.completion_tokens) == (
        "length", None, 3,
    )  # fmt: skip


async def test_text_and_the_end_of_a_long_prompt_are_prompts() -> None:
    """Text is tokenized here; `truncate_prompt_tokens` keeps the prompt's last tokens."""
    async with running() as run:
        _, (text,) = await answers(run, request_of(text="four"))
        _, (cut,) = await answers(run, request_of(truncate_prompt_tokens=1))
    assert (text.prompt_tokens, cut.prompt_tokens) == (4, 1)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no prompt": ({"tokenized": {}}, "tokenized.input_ids"),
    "token that the model lacks": ({"tokenized": {"input_ids": [97, 9999]}}, "tokenized.input_ids"),
    "empty text": ({"text": ""}, "text"),
    "temperature above its limit": ({"temperature": 3.0}, "sampling_params.temperature"),
    "top_p below its limit": ({"top_p": -1.0}, "sampling_params.top_p"),
    "no tokens to generate": ({"max_tokens": 0}, "sampling_params.max_tokens"),
    "more choices than the limit": ({"n": 129}, "sampling_params.n"),
    "all log probabilities": ({"logprobs": -1}, "sampling_params.logprobs"),
    "too many log probabilities": ({"prompt_logprobs": 21}, "sampling_params.prompt_logprobs"),
    "negative token id": ({"logit_bias": {-1: 1.0}}, "sampling_params.logit_bias"),
    "length of the prompt that isn't one": ({"truncate_prompt_tokens": -1}, "sampling_params.truncate_prompt_tokens"),
    "structural tag": ({"structural_tag": "{}"}, "sampling_params.structural_tag"),
    "no choices": ({"choice": {}}, "sampling_params.choice"),
    "another rank": ({"data_parallel_rank": 1}, "data_parallel_rank"),
    "transferred blocks": ({"kv_transfer_params": {}}, "kv_transfer_params"),
    "transferred blocks as JSON": ({"kv_transfer_params_json": "{}"}, "kv_transfer_params_json"),
    "prepared image": ({"mm_inputs": {}}, "mm_inputs"),
    "prepared video": ({"extra_mm_inputs": [{}]}, "extra_mm_inputs"),
    "image by its address": ({"media_refs": {}}, "media_refs"),
}


async def test_wrong_request_is_rejected_by_the_name_of_its_field() -> None:
    """The status is INVALID_ARGUMENT, and its details name the client's field."""
    async with running() as run:
        for case, (fields, expected) in WRONG.items():
            rejection = await rejection_of(stub_of(run).Generate(request_of(**fields)))
            assert rejection.code is grpc.StatusCode.INVALID_ARGUMENT, case
            assert [field for field, _ in rejection.fields] == [expected], case
        assert run.runner.num_steps == 0


async def test_rejected_images_name_the_apis_that_take_them() -> None:
    """A router forwards the text to the client, which can send the images elsewhere."""
    images: list[dict[str, Any]] = [{"mm_inputs": {}}, {"extra_mm_inputs": [{}]}, {"media_refs": {}}]
    async with running() as run:
        for fields in images:
            rejection = await rejection_of(stub_of(run).Generate(request_of(**fields)))
            assert "ChatService and the REST API take images" in rejection.text, fields


async def test_client_that_leaves_stops_its_generation() -> None:
    """Cancelling the call frees every block, streamed or whole."""
    async with running(ScriptedRunner("endless ", end=False), engine=ENDLESS) as run:
        for stream in (True, False):
            call = stub_of(run).Generate(request_of(stream=stream, max_tokens=900_000))
            await until(lambda: run.engine.stats().num_running == 1)
            call.cancel()
            await run.until_idle()


@pytest.mark.parametrize("stream", [True, False])
async def test_aborted_request_ends_with_the_reason_abort(stream: bool) -> None:  # noqa: FBT001
    """Abort returns when the request has ended; other ids are ignored."""
    async with running(ScriptedRunner("endless ", end=False), engine=ENDLESS) as run:
        running_call = asyncio.ensure_future(answers(run, request_of(stream=stream, max_tokens=900_000)))
        await until(lambda: run.engine.stats().num_running == 1)
        await stub_of(run).Abort(engine_pb2.AbortRequest(request_ids=["other"]))
        assert not running_call.done()
        await stub_of(run).Abort(engine_pb2.AbortRequest(request_ids=["other", "r"]))
        _, (end,) = await running_call
        await run.until_idle()
    assert end.finish_reason == "abort"


async def test_only_the_own_key_aborts_a_request(tmp_path: Path) -> None:
    """The same id under another key names no request; a key without the scope can't generate."""
    keys: dict[str, Any] = {"router": {}, "other": {}, "embedder": {"scopes": ["embed"]}}
    abort = engine_pb2.AbortRequest(request_ids=["r"])
    async with guarded(tmp_path / "keys.yaml", **keys) as (run, made):
        stub = stub_of(run)
        rejection = await rejection_of(stub.Generate(request_of(), metadata=bearing(made["embedder"])))
        assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.PERMISSION_DENIED, "SCOPE_MISSING")
        assert (await rejection_of(stub.Generate(request_of()))).code is grpc.StatusCode.UNAUTHENTICATED
        with run.runner.paused(after=1):
            call = asyncio.ensure_future(answers(run, request_of(), metadata=bearing(made["router"])))
            await until(lambda: run.engine.stats().num_running == 1)
            await stub.Abort(abort, metadata=bearing(made["other"]))
            assert run.engine.num_open == 1
            await stub.Abort(abort, metadata=bearing(made["router"]))
        _, (end,) = await call
    assert end.finish_reason == "abort"
