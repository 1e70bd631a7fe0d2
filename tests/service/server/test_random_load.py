"""The whole service under random load of all kinds: every call ends once, and everything is released."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
import torch
import transformers
from grpc import aio
from sluice.v1 import (
    chat_pb2,
    chat_pb2_grpc,
    completion_pb2,
    completion_pb2_grpc,
    embedding_pb2_grpc,
    response_item_pb2,
    response_pb2_grpc,
    text_generation_pb2_grpc,
    token_pb2_grpc,
)

from service.engine.interface.port import StepObserver
from service.generation.caller import ANONYMOUS
from service.loading.model import load_model
from service.observability.telemetry import Telemetry
from service.registry.models import ServedEncoder, ServedGenerator, ServedModel
from service.server.server import Server
from service.settings.engine_settings import EngineSettings
from service.settings.model_settings import ModelSettings
from tests.engine.constraints.fakes import ADDED, END, tokenizer_of
from tests.engine.encoder_fakes import save_encoder
from tests.engine.fakes import until
from tests.engine.tiny_models import config, random_model
from tests.service.contract.response_cases import check_order
from tests.service.fakes import Rejection, settings_of
from tests.service.prompts.fakes import CHATML
from tests.service.random_calls import (
    BEGINNINGS,
    ENCODER,
    END_ID,
    GENERATOR,
    MAX_LENGTH,
    METHODS,
    RandomCall,
    random_call,
)

NUM_CALLS = 2000
NUM_CALLERS = 32
STATUSES = {
    grpc.StatusCode.OK,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
}
STUBS = (
    chat_pb2_grpc.ChatServiceStub,
    completion_pb2_grpc.CompletionServiceStub,
    text_generation_pb2_grpc.TextGenerationServiceStub,
    response_pb2_grpc.ResponseServiceStub,
    embedding_pb2_grpc.EmbeddingServiceStub,
    token_pb2_grpc.TokenServiceStub,
)


@dataclass
class Ending:
    """The outcome of a call: its events or answer, and the status, which is CANCELLED if the client cancelled."""

    call: RandomCall
    status: grpc.StatusCode = grpc.StatusCode.OK
    reason: str = ""
    has_no_room: bool = False  # at least this number for an answer of its form
    got: list[Any] = field(default_factory=list)


def save_generator(folder: Path) -> None:
    """Save a random model with a chat template and a tokenizer that has a token for each byte."""
    folder.mkdir()
    torch.manual_seed(0)
    tokenizer = tokenizer_of(*ADDED)
    assert tokenizer.encode(END) == [END_ID]
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = random_model(
        config(
            "qwen3",
            **sizes,
            num_key_value_heads=1,
            head_dim=16,
            vocab_size=tokenizer.vocab_size,
            max_position_embeddings=MAX_LENGTH,
            eos_token_id=END_ID,
        )
    )
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(tokenizer.json)
    whole: Any = transformers.PreTrainedTokenizerFast
    whole(tokenizer_file=str(folder / "tokenizer.json"), chat_template=CHATML, eos_token=END).save_pretrained(folder)


@dataclass
class Service:
    """The stubs of the server, to call a method by its name."""

    generator: ServedGenerator
    encoder: ServedEncoder
    channel: aio.Channel

    def __post_init__(self) -> None:
        stubs = [stub(self.channel) for stub in STUBS]
        self.methods = {method: getattr(stub, method) for stub in stubs for method in METHODS if hasattr(stub, method)}


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Service]:
    """Run two real models on a real server; the generator's cache holds only a few sequences at a time."""
    torch.set_num_threads(1)
    save_generator(folder / GENERATOR)
    save_encoder("bert", folder / ENCODER)
    engine = {
        GENERATOR: EngineSettings(
            block_size=8,
            num_blocks=MAX_LENGTH // 8,
            max_batch_tokens=128,
            max_batch_sequences=16,
            max_prefill_chunk=48,
            max_queue_requests=45,
            num_threads=1,
        ),
        ENCODER: EngineSettings(max_batch_tokens=128, num_threads=1),
    }
    settings = settings_of(model={name: str(folder / name) for name in engine})
    telemetry = Telemetry(None)
    server = Server(settings, telemetry)

    async def load(model: ModelSettings, observer: StepObserver) -> ServedModel:
        filled = {"dtype": "float32", "device": "cpu", "cache_share": 1.0, "engine": engine[model.name]}
        return load_model(model.model_copy(update=filled), observer)

    port = await server.start()
    await server.load(settings.served_models(), load)
    try:
        async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            generator, encoder = (
                server.registry.visible_to(ANONYMOUS).generator(GENERATOR),
                server.registry.visible_to(ANONYMOUS).encoder(ENCODER),
            )
            yield Service(generator, encoder, channel)
    finally:
        await server.close()
        telemetry.shutdown()


async def read(call: Any, events: list[Any], num_events: int | None = None) -> None:
    """Append the call's next events, up to `num_events` in all or to its end; raises the call's error."""
    while len(events) != num_events and (event := await call.read()) is not aio.EOF:
        events.append(event)


async def end_of(service: Service, expected: RandomCall) -> Ending:
    """Make the call, read or cancel it, and return its outcome."""
    ending = Ending(expected)
    call = service.methods[expected.method](expected.request, timeout=expected.timeout_s)
    try:
        if expected.leaves_after is not None:
            if expected.is_streamed:
                await read(call, ending.got, expected.leaves_after)
            else:
                await asyncio.sleep(expected.leaves_after / 1000)
            if call.cancel():
                ending.status = grpc.StatusCode.CANCELLED
                return ending
        if expected.is_streamed:
            await read(call, ending.got)
        else:
            ending.got.append(await call)
    except aio.AioRpcError as error:
        ending.status = error.code()
        if ending.status is not grpc.StatusCode.DEADLINE_EXCEEDED:  # an error of gRPC itself, which has no reason
            ending.reason = Rejection(error).info.reason
            ending.has_no_room = "shortest answer that matches" in str(error.details())
    return ending


def check_ending(ending: Ending) -> None:
    """Check that the call may have its status, and that an answer that was not cut short is complete."""
    call = ending.call
    expected = {call.wrong or grpc.StatusCode.OK}
    if call.timeout_s is not None:
        expected.add(grpc.StatusCode.DEADLINE_EXCEEDED)
    if call.leaves_after is not None:
        expected.add(grpc.StatusCode.CANCELLED)
    if ending.reason == "QUEUE_FULL":
        expected.add(grpc.StatusCode.RESOURCE_EXHAUSTED)
    if ending.has_no_room:  # a call or a text whose format needs more tokens than requested
        expected.add(grpc.StatusCode.INVALID_ARGUMENT)
    assert ending.status in expected, (ending.reason, call)
    is_whole = ending.status is grpc.StatusCode.OK
    if call.is_streamed:
        check_stream(ending.got, call, is_whole=is_whole)
    elif is_whole:
        (answer,) = ending.got
        check_whole(answer, call)


def check_stream(events: Sequence[Any], call: RandomCall, *, is_whole: bool) -> None:
    """Check a stream: numbers without gaps, at most one end per choice and nothing after it, the end event last."""
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.WhichOneof("event") for event in events]
    num_ends = sum(kind in {"completed", "incomplete"} for kind in kinds)
    assert num_ends <= 1
    assert not is_whole or (num_ends, kinds[-1] in {"completed", "incomplete"}) == (1, True)
    if call.method == "StreamResponse":
        if is_whole:
            check_order(events)
        return
    finished: set[int] = set()
    for event, kind in zip(events, kinds, strict=True):
        choice_index = getattr(getattr(event, kind), "choice_index", 0)
        if kind in {"choice_finished", "finished"}:
            assert choice_index not in finished
            finished.add(choice_index)
        elif kind.endswith("delta"):
            assert choice_index not in finished
    assert kinds.count("usage") <= 1
    if is_whole:
        assert kinds[-2:] == ["usage", "completed"]
        assert finished == set(range(call.num_choices))


def check_whole(answer: Any, call: RandomCall) -> None:
    """Check that an answer has all its parts, each with its finish reason."""
    match call.method:
        case "Chat" | "Complete":
            assert [choice.index for choice in answer.choices] == list(range(call.num_choices))
            assert all(choice.finish_reason for choice in answer.choices)
        case "GenerateText":
            assert answer.finish_reason != chat_pb2.FINISH_REASON_UNSPECIFIED
        case "CreateResponse":
            assert answer.response.status > response_item_pb2.RESPONSE_STATUS_IN_PROGRESS
        case "Embed":
            assert [each.index for each in answer.embeddings] == list(range(len(call.request.inputs)))


async def until_idle(service: Service) -> None:
    """Return when all engines are idle and every block is free; fail if that never happens."""

    def is_idle() -> bool:
        stats = [served.engine.stats() for served in (service.generator, service.encoder)]
        return not any(each.num_running or each.num_waiting for each in stats) and all(
            each.num_free_blocks == each.num_blocks for each in stats
        )

    await until(is_idle)
    await service.generator.engine.check()
    assert not service.generator.engine.num_open
    assert not service.encoder.engine.num_open


async def greedy_texts(service: Service) -> list[str]:
    """Return the model's answers to a few prompts that share prefixes with the load."""
    texts = []
    for text in BEGINNINGS:
        fields: dict[str, Any] = {"sampling": {"temperature": 0}, "stopping": {"max_tokens": 20, "ignore_eos": True}}
        request = completion_pb2.CompleteRequest(model=GENERATOR, prompts=[{"text": f"{text}abba"}], **fields)
        texts.append((await service.methods["Complete"](request)).choices[0].text)
    return texts


@pytest.mark.long
async def test_2000_random_calls_end_once_and_release_everything(tmp_path: Path) -> None:
    """Each call, cancelled, late, preempted or rejected, ends once, and every block and task is released."""
    draw = random.Random(11)
    calls = [random_call(draw) for _ in range(NUM_CALLS)]
    room = asyncio.Semaphore(NUM_CALLERS)
    async with serving(tmp_path) as service:

        async def run(expected: RandomCall) -> Ending:
            async with room:
                return await end_of(service, expected)

        texts = await greedy_texts(service)
        num_tasks = len(asyncio.all_tasks())
        endings = await asyncio.gather(*map(run, calls))
        await until_idle(service)
        await until(lambda: len(asyncio.all_tasks()) <= num_tasks)
        assert await greedy_texts(service) == texts
        stats = service.generator.engine.stats()
    for ending in endings:
        check_ending(ending)

    assert stats.num_preemptions > 0
    assert stats.num_prefix_hit_tokens > 0
    by_status: dict[grpc.StatusCode, list[Ending]] = {}
    for ending in endings:
        by_status.setdefault(ending.status, []).append(ending)
    assert by_status.keys() == STATUSES, "the load does not reach every end"
    for status in (grpc.StatusCode.OK, grpc.StatusCode.CANCELLED):
        assert {ending.call.method for ending in by_status[status]} == METHODS
    left = [ending for ending in by_status[grpc.StatusCode.CANCELLED] if ending.call.is_streamed]
    assert {bool(ending.got) for ending in left} == {False, True}
