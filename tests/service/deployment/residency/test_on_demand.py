"""Models on demand over gRPC: scripted models whose engines can be launched again, and a limit of two."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from grpc import aio
from sluice.inference import inference_pb2, inference_pb2_grpc
from sluice.v1 import chat_pb2, chat_pb2_grpc, model_pb2, model_pb2_grpc, serving_pb2

from service.engine.client.generator import GeneratorClient
from service.engine.core.generator_core import GeneratorCore
from service.engine.interface.config import max_sequence_len
from service.engine.interface.description import GeneratorDescription, ModelInfo
from service.engine.interface.port import StepObserver
from service.observability.telemetry import Telemetry
from service.registry.models import ServedModel
from service.server.server import Server
from service.settings.model_settings import ModelSettings
from tests.engine.byte_tokenizer import END, ByteTokenizer
from tests.engine.fakes import config_of, until
from tests.service.chat_events import text_of
from tests.service.deployment.residency.relaunched_link import RelaunchedLink
from tests.service.fakes import ScriptedRunner, rejection_of, request, rest_of, served, settings_of
from tests.service.plain_preparation import PlainPreparation

UNLOADED = "the next request loads the model"
MODELS = dict.fromkeys(("a", "b", "c"), "nowhere")


@dataclass
class Scene:
    """A running service, with the links and runners of its models by name."""

    server: Server
    telemetry: Telemetry
    chat: Any
    models: Any
    channel: aio.Channel
    links: dict[str, RelaunchedLink]
    runners: dict[str, ScriptedRunner]

    @property
    def loaded(self) -> set[str]:
        return {model.name for model in self.server.registry.loaded if not model.engine.is_asleep}

    async def ask(self, model: str) -> str:
        """Return the text of an answer."""
        response: chat_pb2.ChatResponse = await self.chat.Chat(request(model=model))
        return response.choices[0].message.content[0].text

    async def until_waiting(self, model: str, num: int = 1) -> None:
        """Return when a load of the model has begun `num` times."""
        await until(lambda: self.links[model].num_relaunches >= num)

    def metric(self, name: str, **labels: str) -> float:
        return sum(
            sample.value
            for sample in self.telemetry.samples()
            if sample.name == name and labels.items() <= sample.labels.items()
        )


@asynccontextmanager
async def scene(**settings: Any) -> AsyncIterator[Scene]:
    """Run a service with the models a, b and c, and memory for two; c is loaded last, instead of b."""
    telemetry = Telemetry(None)
    chosen = settings_of(**{"model": MODELS, "max_loaded_models": 2, **settings})
    server = Server(chosen, telemetry)
    links: dict[str, RelaunchedLink] = {}
    runners: dict[str, ScriptedRunner] = {}

    async def load(model: ModelSettings, observer: StepObserver) -> ServedModel:
        config, tokenizer = config_of(), ByteTokenizer()
        runner = runners[model.name] = ScriptedRunner(f"I am {model.name}")
        link = RelaunchedLink(lambda: GeneratorCore(runner, tokenizer, config, eos_token_ids=[END]))
        links[model.name] = link
        engine = GeneratorClient(link, config, vocab_size=tokenizer.vocab_size, observer=observer)
        return served(model.name, engine, PlainPreparation())

    port = await server.start()
    await server.load(chosen.served_models(), load)
    try:
        async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            chat, models = chat_pb2_grpc.ChatServiceStub(channel), model_pb2_grpc.ModelServiceStub(channel)
            yield Scene(server, telemetry, chat, models, channel, links, runners)
    finally:
        for link in links.values():
            link.gate.set()
        await server.close()
        telemetry.shutdown()


async def test_a_request_loads_its_model_instead_of_the_one_used_least_recently() -> None:
    """All models are listed in the order of the settings, loaded or not."""
    async with scene() as service:
        assert service.loaded == {"a", "c"}
        assert [await service.ask(name) for name in ("a", "c", "a", "b")] == ["I am a", "I am c", "I am a", "I am b"]
        assert service.loaded == {"a", "b"}
        listed = await service.models.ListModels(model_pb2.ListModelsRequest())
        loaded, unloaded = model_pb2.MODEL_STATE_LOADED, model_pb2.MODEL_STATE_UNLOADED
        assert [(model.name, model.state) for model in listed.models] == [("a", loaded), ("b", loaded), ("c", unloaded)]
        assert not any(model.is_asleep for model in listed.models)
        assert service.metric("sluice_model_loads_total", gen_ai_request_model="b", sluice_outcome="succeeded") == 1
        assert service.metric("sluice_model_unloads_total", gen_ai_request_model="c") == 1
        assert service.metric("sluice_model_load_wait_seconds_count") == 1


async def test_a_running_request_keeps_its_model_and_the_other_one_makes_way() -> None:
    async with scene() as service:
        await service.ask("c")
        with service.runners["a"].paused(after=1):
            stream = service.chat.StreamChat(request(model="a"))
            first = await stream.read()
            await service.ask("c")
            assert await service.ask("b") == "I am b"
            assert service.loaded == {"a", "b"}
        assert text_of([first, *[event async for event in rest_of(stream)]]) == "I am a"


async def test_requests_wait_for_one_load_and_all_are_answered() -> None:
    async with scene() as service:
        service.links["b"].gate.clear()
        waiting = [asyncio.create_task(service.ask("b")) for _ in range(8)]
        await service.until_waiting("b")
        service.links["b"].gate.set()
        assert await asyncio.gather(*waiting) == ["I am b"] * 8
        assert service.links["b"].num_relaunches == 1


async def test_reported_times_include_the_wait_for_the_load() -> None:
    """A request whose model is in memory has none."""
    async with scene() as service:
        service.links["b"].gate.clear()
        asked = request(model="b", serving=serving_pb2.ServingOptions(report_timings=True))
        waiting = asyncio.create_task(_timings(service, asked))
        await service.until_waiting("b")
        held_from = time.monotonic()
        await asyncio.sleep(0.05)
        held_s = time.monotonic() - held_from
        service.links["b"].gate.set()
        assert (await waiting).load_wait.ToNanoseconds() >= held_s * 1e9
        assert not (await _timings(service, asked)).HasField("load_wait")


async def _timings(service: Scene, asked: chat_pb2.ChatRequest) -> serving_pb2.RequestTimings:
    response: chat_pb2.ChatResponse = await service.chat.Chat(asked)
    return response.timings


async def test_a_load_that_fails_ends_the_requests_that_wait_as_unavailable() -> None:
    """The next requests are rejected with the time after which the load is tried again."""
    async with scene() as service:
        service.links["b"].is_broken = True
        first = await rejection_of(service.chat.Chat(request(model="b")))
        second = await rejection_of(service.chat.Chat(request(model="b")))
        assert [each.code for each in (first, second)] == [grpc.StatusCode.UNAVAILABLE] * 2
        assert [each.info.reason for each in (first, second)] == ["MODEL_NOT_LOADED"] * 2
        assert (second.retry_after_s or 0) > 1
        assert service.links["b"].num_relaunches == 1
        assert await service.ask("a") == "I am a"
        assert service.metric("sluice_model_loads_total", gen_ai_request_model="b", sluice_outcome="failed") == 1


async def test_a_request_that_waits_while_changed_files_are_loaded_is_answered_with_them() -> None:
    async with scene() as service:
        service.links["b"].has_changed = True
        assert await service.ask("b") == "I am b"
        assert service.links["b"].num_relaunches == 0, "it has a new link"


async def test_a_request_whose_deadline_passes_during_the_load_ends_with_that_status() -> None:
    async with scene() as service:
        service.links["b"].gate.clear()
        rejected = await rejection_of(service.chat.Chat(request(model="b"), timeout=0.2))
        assert rejected.code is grpc.StatusCode.DEADLINE_EXCEEDED
        service.links["b"].gate.set()
        assert await service.ask("b") == "I am b"


async def test_a_model_that_an_operator_has_put_to_sleep_is_not_loaded_by_requests() -> None:
    """Once it is woken, its next request loads it."""
    async with scene() as service:
        await service.models.SleepModel(model_pb2.SleepModelRequest(model="b"))
        rejected = await rejection_of(service.chat.Chat(request(model="b")))
        assert (rejected.code, rejected.info.reason) == (grpc.StatusCode.UNAVAILABLE, "MODEL_ASLEEP")
        await service.models.WakeModel(model_pb2.WakeModelRequest(model="b"))
        assert await service.ask("b") == "I am b"
        assert len(service.loaded) == 2


async def test_a_pinned_model_stays_and_the_others_take_turns() -> None:
    models = [{"name": "a", "path": "nowhere", "pinned": True}, *({"name": n, "path": "nowhere"} for n in "bc")]
    async with scene(model={}, models=models) as service:
        for name in ("b", "c", "b"):
            assert await service.ask(name) == f"I am {name}"
            assert service.loaded == {"a", name}
        assert service.links["a"].num_relaunches == 0


async def test_the_first_load_may_lower_the_maximum_length() -> None:
    """It depends on the memory for the cache. The request that waits for the load has the new length already."""
    async with scene() as service:
        before = await service.models.GetModel(model_pb2.GetModelRequest(model="b"))
        config = config_of(num_blocks=8)
        info = ModelInfo("Scripted", before.model.max_model_len, 256, "float32", "cpu", 1, True, "fp")
        service.links["b"].description = GeneratorDescription(config, info, 256, frozenset([END]))
        longest = max_sequence_len(config)
        assert longest < before.model.max_model_len
        too_long = await rejection_of(service.chat.Chat(request("x" * longest, model="b")))
        assert (too_long.code, too_long.info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "PROMPT_TOO_LONG")
        after = await service.models.GetModel(model_pb2.GetModelRequest(model="b"))
        assert after.model.max_model_len == longest
        assert await service.ask("b") == "I am b"


async def test_keep_model_loads_and_unloads_a_model_without_a_request_for_text() -> None:
    """An unload is that of the key's own wish; the answer and ListModels have the time at which a model expires."""
    async with scene(idle_unload_s=3600) as service:
        keep = service.models.KeepModel
        kept: model_pb2.KeepModelResponse = await keep(model_pb2.KeepModelRequest(model="b", keep_alive_seconds=600))
        assert (kept.model.state, kept.model.HasField("expire_time")) == (model_pb2.MODEL_STATE_LOADED, True)
        longest: model_pb2.KeepModelResponse = await keep(model_pb2.KeepModelRequest(model="b", keep_alive_seconds=-1))
        later_s = longest.model.expire_time.seconds - kept.model.expire_time.seconds
        assert 2990 < later_s < 3060, "the operator's hour, not the client's ten minutes"
        await keep(model_pb2.KeepModelRequest(model="b", keep_alive_seconds=0))
        await until(lambda: "b" not in service.loaded)
        left: model_pb2.KeepModelResponse = await keep(model_pb2.KeepModelRequest(model="b", keep_alive_seconds=0))
        assert (left.model.state, left.model.HasField("expire_time")) == (model_pb2.MODEL_STATE_UNLOADED, False)
        assert service.links["b"].num_relaunches == 1
        await service.models.SleepModel(model_pb2.SleepModelRequest(model="b"))
        rejected = await rejection_of(keep(model_pb2.KeepModelRequest(model="b")))
        assert rejected.info.reason == "MODEL_ASLEEP"


async def test_the_repository_index_has_unloaded_models_as_ready_and_a_load_loads_them() -> None:
    """Clients of KServe's protocol send requests only to models that are ready."""
    async with scene() as service:
        stub: Any = inference_pb2_grpc.GRPCInferenceServiceStub(service.channel)

        async def index() -> dict[str, tuple[str, str]]:
            found = await stub.RepositoryIndex(inference_pb2.RepositoryIndexRequest(ready=True))
            return {each.name: (each.state, each.reason) for each in found.models}

        assert await index() == dict.fromkeys("ac", ("READY", "")) | {"b": ("READY", UNLOADED)}
        await stub.RepositoryModelLoad(inference_pb2.RepositoryModelLoadRequest(model_name="b"))
        assert "b" in service.loaded
        await service.models.SleepModel(model_pb2.SleepModelRequest(model="b"))
        assert "b" not in await index()


async def test_a_request_says_how_long_its_model_stays() -> None:
    async with scene() as service:
        await service.chat.Chat(request(model="b", serving=serving_pb2.ServingOptions(keep_alive_seconds=0)))
        await until(lambda: "b" not in service.loaded)
        assert await service.ask("b") == "I am b"


async def test_the_stop_ends_requests_that_wait_for_a_load() -> None:
    async with scene(drain_timeout_s=0) as service:
        service.links["b"].gate.clear()
        waiting = asyncio.create_task(rejection_of(service.chat.Chat(request(model="b"))))
        await service.until_waiting("b")
        await service.server.drain()
        assert (await waiting).code is grpc.StatusCode.UNAVAILABLE
