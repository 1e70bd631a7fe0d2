"""EndpointService on a real server: the life cycle of endpoints, routing, and service levels."""

import asyncio
import logging
from dataclasses import replace

import grpc
import pytest
from sluice.v1 import endpoint_pb2, model_pb2, serving_pb2

from service.generation.caller import ANONYMOUS
from service.prompting.preparation import Preparation
from service.prompts.preparing.workers import WorkerLimits, Workers
from service.registry.description import Task
from service.registry.endpoint_table import EndpointTable
from tests.engine.fakes import until
from tests.service.chat_events import kinds_of
from tests.service.endpoint_fakes import Serving, both, entities_of, serving
from tests.service.fakes import rejection_of, request, rest_of

Code = grpc.StatusCode


async def answers(run: Serving, model: str, deployment: str = "") -> str:
    """Return the model that answers a chat; each model generates its own name."""
    options = serving_pb2.ServingOptions(deployment=deployment)
    response = await run.chat.Chat(request(model=model, serving=options))
    assert response.choices[0].message.content[0].text == response.model
    name: str = response.model
    return name


async def test_endpoint_is_created_updated_and_deleted() -> None:
    """Each call sees the previous change: the version rises by one, `created` stays, and at last the name is free."""
    async with serving("a", "b") as run:
        made = await run.create("x", *both())
        assert (made.name, made.task, made.config_version, made.is_model) == ("x", model_pb2.TASK_CHAT, 1, False)
        assert made.created == made.updated
        assert await run.get("x") == made
        changed = await run.update("x", ("only", "b", 100))
        assert list(changed.entities) == entities_of(("only", "b", 100))
        assert (changed.config_version, changed.created) == (2, made.created)
        assert changed.updated.ToNanoseconds() > made.updated.ToNanoseconds()
        assert await run.names() == ["a", "b", "encoder", "x"]
        await run.endpoints.DeleteEndpoint(endpoint_pb2.DeleteEndpointRequest(name="x"))
        assert await run.names() == ["a", "b", "encoder"]
        assert (await run.create("x", *both())).config_version == 1


async def test_model_is_listed_as_its_own_endpoint() -> None:
    """A model is listed as an endpoint with itself as its only entity, and its load time as `created`."""
    async with serving("a") as run:
        own, vectors = await run.get("a"), await run.get("encoder")
        model = (await run.models.GetModel(model_pb2.GetModelRequest(model="a"))).model
    assert own == endpoint_pb2.Endpoint(
        name="a",
        task=model_pb2.TASK_CHAT,
        entities=entities_of(("a", "a", 100)),
        created=model.created,
        updated=model.created,
        config_version=1,
        is_model=True,
    )
    assert vectors.task == model_pb2.TASK_EMBEDDING


async def test_changes_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Each change that succeeds is logged with the endpoint's name; a rejected one is not logged."""
    caplog.set_level(logging.INFO, "service.servicers.models.endpoint")
    async with serving("a", "b") as run:
        await run.create("x", *both())
        await rejection_of(run.create("x", *both()))
        await run.update("x", ("only", "b", 100))
        await run.endpoints.DeleteEndpoint(endpoint_pb2.DeleteEndpointRequest(name="x"))
    logged = [record for record in caplog.records if record.name == "service.servicers.models.endpoint"]
    assert [record.getMessage() for record in logged] == [
        f"endpoint was {what}" for what in ("created", "changed", "removed")
    ]
    assert {record.__dict__["fields"]["endpoint"] for record in logged} == {"x"}


async def test_requests_are_routed_by_traffic_percentage() -> None:
    """One draw per request selects the entity; the answer has the name of the model, not of the endpoint."""
    async with serving("a", "b") as run:
        places = iter([0, 29, 30, 99, 31])
        run.server.registry.endpoints = EndpointTable(draw=lambda _: next(places))
        await run.create("x", *both(30, 70))
        assert [await answers(run, "x") for _ in range(5)] == ["a", "a", "b", "b", "b"]


async def test_the_default_tag_of_ollamas_clients_is_ignored_unless_a_name_has_it() -> None:
    """Models and endpoints have it, in every RPC; the error for an unknown name is that of the name."""
    async with serving("a", "b", "b:latest") as run:
        assert [await answers(run, name) for name in ("a:latest", "b", "b:latest")] == ["a", "b", "b:latest"]
        await run.create("x", ("only", "a", 100))
        assert await answers(run, "x:latest") == "a"
        got = await run.models.GetModel(model_pb2.GetModelRequest(model="a:latest"))
        assert got.model.name == "a"
        for unknown in ("c:latest", "a:other"):
            assert (await rejection_of(run.chat.Chat(request(model=unknown)))).code is Code.NOT_FOUND


async def test_deployment_selects_an_entity_by_name() -> None:
    """`deployment` selects an entity by name, whatever its percentage.

    A model's own endpoint has one entity, with its name.
    """
    async with serving("a", "b") as run:
        await run.create("x", ("main", "a", 100), ("trial", "b", 0))
        assert await answers(run, "x", "trial") == "b"
        assert await answers(run, "x", "main") == "a"
        assert await answers(run, "a", "a") == "a"
        for endpoint, deployment in (("x", "third"), ("x", "b"), ("a", "main")):
            rejection = await rejection_of(answers(run, endpoint, deployment))
            assert (rejection.code, rejection.info.reason) == (Code.NOT_FOUND, "DEPLOYMENT_NOT_FOUND")
            assert dict(rejection.info.metadata) == {"endpoint": endpoint, "deployment": deployment}


async def test_running_stream_keeps_its_model_during_changes() -> None:
    """A stream keeps its model to the end while its endpoint is changed and deleted."""
    async with serving("a", "b") as run:
        await run.create("x", ("only", "a", 100))
        with run.runners["a"].paused(after=1):
            stream = run.chat.StreamChat(request(model="x"))
            first = await stream.read()
            await run.update("x", ("only", "b", 100))
            assert await answers(run, "x") == "b"
            await run.endpoints.DeleteEndpoint(endpoint_pb2.DeleteEndpointRequest(name="x"))
        events = [event async for event in rest_of(stream)]
        rejection = await rejection_of(answers(run, "x"))
    assert first.started.model == "a"
    assert kinds_of(events)[-1] == "completed"
    assert "".join(event.content_delta.text for event in events) == "a"
    assert (rejection.code, rejection.info.metadata["model"]) == (Code.NOT_FOUND, "x")


async def test_blocked_model_does_not_block_another() -> None:
    """A model answers while another one is blocked."""
    async with serving("a", "b") as run:
        with run.runners["a"].paused(after=1):
            stream = run.chat.StreamChat(request(model="a"))
            await stream.read()
            assert await answers(run, "b") == "b"
            stream.cancel()
        await until(lambda: all(engine.stats().num_running == 0 for engine in run.engines.values()))


async def test_get_model_of_an_endpoint_describes_the_model_with_most_traffic() -> None:
    """GetModel returns the model with the largest percentage, under its own name; ListModels has models only."""
    async with serving("a", "b") as run:
        await run.create("x", *both(30, 70))
        got = await run.models.GetModel(model_pb2.GetModelRequest(model="x"))
        listed = await run.models.ListModels(model_pb2.ListModelsRequest())
    assert got.model.name == "b"
    assert [model.name for model in listed.models] == ["a", "b", "encoder"]


async def test_unsupported_task_of_a_model_is_rejected() -> None:
    """A chat with an encoder is UNSUPPORTED_TASK on `model`, by the model's name and by an endpoint's."""
    async with serving("a") as run:
        await run.create("x", ("only", "encoder", 100))
        for name in ("encoder", "x"):
            rejection = await rejection_of(answers(run, name))
            assert (rejection.code, rejection.fields) == (Code.INVALID_ARGUMENT, [("model", "UNSUPPORTED_TASK")])
            assert "'encoder'" in rejection.text


async def test_chat_without_a_chat_template_is_rejected() -> None:
    """The error names the field `model`. An endpoint over such a model and a chat model has the task completion."""
    async with serving("a", "b", tasks={"b": [Task.COMPLETION]}) as run:
        served = run.server.registry.visible_to(ANONYMOUS).generator("b")
        preparation = Preparation("b", served.tokenizer, 128, None, Workers(WorkerLimits()))
        run.server.registry.add(replace(served, preparation=preparation))
        assert (await run.create("x", *both(0, 100))).task == model_pb2.TASK_COMPLETION
        rejection = await rejection_of(answers(run, "x"))
    assert (rejection.code, rejection.fields) == (Code.INVALID_ARGUMENT, [("model", "UNSUPPORTED_TASK")])
    assert "no chat template" in rejection.text


async def test_concurrent_endpoint_changes_are_serialized() -> None:
    """Of many concurrent creations of a name, one succeeds; no update is lost."""
    async with serving("a", "b") as run:
        created = await asyncio.gather(*(run.create("x", *both()) for _ in range(8)), return_exceptions=True)
        assert [getattr(each, "config_version", None) for each in created].count(1) == 1
        updated = await asyncio.gather(*(run.update("x", *both(share, 100 - share)) for share in range(20)))
        assert sorted(endpoint.config_version for endpoint in updated) == list(range(2, 22))
        last = max(updated, key=lambda endpoint: endpoint.config_version)
        assert await run.get("x") == last


async def test_an_endpoint_of_the_settings_has_a_service_level() -> None:
    """A limit that a request doesn't set is that of the endpoint that it names."""
    entity = {"name": "only", "model": "a", "traffic_percentage": 100}
    endpoint = {"name": "fast", "entities": [entity], "slo_first_token_seconds": 600, "slo_token_seconds": 1e-9}
    async with serving("a", endpoints=[endpoint]) as run:
        own = serving_pb2.ServingOptions(slo_token_seconds=60)
        for model, options in (("fast", None), ("fast", own), ("a", None)):
            await run.chat.Chat(request(model=model, serving=options))
        counts = {
            (sample.labels["sluice_slo_class"], sample.labels["sluice_slo_met"]): sample.value
            for sample in run.telemetry.samples()
            if sample.name == "sluice_server_slo_choices_total"
        }
    assert counts == {("interactive", "false"): 1, ("relaxed", "true"): 1, ("batch", "true"): 1}


async def test_a_created_endpoint_has_a_service_level() -> None:
    """Requests that set none have it; an update keeps it, replaces it, or removes it by an empty message."""
    async with serving("a") as run:
        only = entities_of(("only", "a", 100))
        level = serving_pb2.ServiceLevel(first_token_seconds=600, token_seconds=60)
        create = endpoint_pb2.CreateEndpointRequest(name="x", entities=only, service_level=level)
        assert (await run.endpoints.CreateEndpoint(create)).endpoint.service_level == level
        await run.chat.Chat(request(model="x"))
        counts = [
            sample.labels["sluice_slo_class"]
            for sample in run.telemetry.samples()
            if sample.name == "sluice_server_slo_choices_total"
        ]
        assert counts == ["relaxed"]
        assert (await run.update("x", ("only", "a", 100))).service_level == level
        for new in (serving_pb2.ServiceLevel(token_seconds=1), serving_pb2.ServiceLevel()):
            update = endpoint_pb2.UpdateEndpointRequest(name="x", entities=only, service_level=new)
            changed = (await run.endpoints.UpdateEndpoint(update)).endpoint
            assert changed.service_level == new
            assert changed.HasField("service_level") == bool(new.ListFields())
