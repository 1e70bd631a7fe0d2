"""Alerts fire in a real Prometheus that scrapes services with faults.

The services are real except for their models. Alerts that need a broken machine or an hour (exhausted descriptors, a
stalled rollout) are tested by promtool only, in test_rules.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from grpc import aio
from sluice.v1 import sampling_pb2, serving_pb2

from service.observability.telemetry import MetricsPage
from service.observability.vllm_names import with_vllm_names
from tests.deploy.prometheus_server import prometheus
from tests.e2e.stack import free_ports
from tests.service.fakes import Running, ScriptedRunner, request, rest_of, running
from tests.waiting import GUARD_S

pytestmark = pytest.mark.deploy

FIRED = {
    "SluiceServiceDown",
    "SluiceGatewayDown",
    "SluiceCallsFail",
    "SluiceEngineFailed",
    "SluiceEngineStalled",
    "SluiceRefusing",
    "SluiceQueueWait",
    "SluiceFirstTokenSlow",
    "SluiceTokensSlow",
    "SluicePreempting",
    "SluiceTrialWorse",
    "SluiceQuotaStoreLost",
}


@asynccontextmanager
async def metrics_page(run: Running) -> AsyncIterator[str]:
    """Yield the address of a service's metrics page."""
    page = MetricsPage(with_vllm_names(run.telemetry.registry), "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{page.port}"
    finally:
        await asyncio.to_thread(page.close)


async def read_to_end(call: Any) -> None:
    """Read a stream to its end, ignoring errors."""
    try:
        async for _ in rest_of(call):
            pass
    except aio.AioRpcError:
        pass


async def ask(run: Running, text: str = "hi", **fields: Any) -> None:
    """Send one request to the only model."""
    (model,) = (served.name for served in run.server.registry.loaded)
    await read_to_end(run.chat.StreamChat(request(text, **{"model": model, **fields})))


async def stall(run: Running) -> None:
    """Send one request whose second step never ends, and others that find the queue full."""
    with run.runner.paused(after=1):
        while True:
            await asyncio.gather(*(asyncio.wait_for(ask(run), 2) for _ in range(4)), return_exceptions=True)


async def slow(run: Running) -> None:
    """Send requests that wait for six seconds, and then for each token."""
    while True:
        run.runner.delay_s = 0.0
        with run.runner.paused():
            asking = [asyncio.create_task(ask(run)) for _ in range(4)]
            await asyncio.sleep(6)
            run.runner.delay_s = 0.7
        await asyncio.gather(*asking)


async def overfill(run: Running) -> None:
    """Send more concurrent requests than the cache can hold."""
    run.runner.delay_s = 0.01
    stopping = sampling_pb2.StopParams(max_tokens=40)
    while True:
        await asyncio.gather(*(ask(run, f"{number}", stopping=stopping) for number in range(6)))


async def fail_trial(run: Running) -> None:
    """Call an endpoint with two deployments: the trial always fails, the stable one never does."""
    while True:
        for deployment, failure in (("stable", None), ("trial", ValueError())):
            run.preparation.fail_with = failure
            await ask(run, model="front", serving=serving_pb2.ServingOptions(deployment=deployment))
        await asyncio.sleep(0.1)


async def crash(run: Running) -> None:
    """Make the engine die after its first answer."""
    await ask(run)
    run.runner.fail_with = ValueError()
    while True:
        await ask(run)
        await asyncio.sleep(0.5)


ENTITIES = [{"name": name, "model": "fail_trial", "traffic_percentage": 50} for name in ("stable", "trial")]
FAULTS: list[tuple[Callable[[Running], Coroutine[Any, Any, None]], dict[str, Any]]] = [
    (stall, {"engine": {"max_queue_requests": 1, "max_batch_sequences": 1}}),
    (slow, {"engine": {"max_batch_sequences": 2}}),
    (overfill, {"engine": {"num_blocks": 24, "max_model_len": 64}, "runner": ScriptedRunner("again", end=False)}),
    (fail_trial, {"endpoints": [{"name": "front", "entities": ENTITIES}]}),
    (crash, {}),
]


async def test_alerts_fire_for_their_faults(tmp_path: Path) -> None:
    """Before any traffic, only the alerts about missing processes fire; then all that a minute of faults can cause."""
    unused, lost = free_ports(2)
    quota = {"redis_url": f"redis://127.0.0.1:{lost}/0"}
    async with AsyncExitStack() as stack:
        runs = [
            await stack.enter_async_context(running(quota=quota, model={fault.__name__: "nowhere"}, **options))
            for fault, options in FAULTS
        ]
        pages = [await stack.enter_async_context(metrics_page(run)) for run in runs]
        targets = {"sluice-service": [*pages, f"127.0.0.1:{unused}"], "sluice-gateway": [f"127.0.0.1:{unused}"]}
        server = await stack.enter_async_context(prometheus(tmp_path, targets))
        before = {"SluiceServiceDown", "SluiceGatewayDown", "SluiceQuotaStoreLost"}
        await until_fired(server.firing, before)
        assert await server.firing() == before
        tasks = [asyncio.create_task(fault(run)) for (fault, _), run in zip(FAULTS, runs, strict=True)]
        try:
            await until_fired(server.firing, FIRED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def until_fired(firing: Callable[[], Awaitable[set[str]]], expected: set[str]) -> None:
    """Return when each of the alerts has fired."""
    seen: set[str] = set()
    try:
        async with asyncio.timeout(GUARD_S):
            while not expected <= seen:
                seen |= await firing()
                await asyncio.sleep(0.3)
    except TimeoutError:
        missing = sorted(expected - seen)
        raise AssertionError(f"never fired: {missing}") from None
