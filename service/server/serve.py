"""The life of the service process: telemetry, server, models, then requests until a stop."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from functools import partial

from process.lifetime.stop import StopSignal
from process.settings.reload import Reload
from service.deployment.deployment import LoadModel
from service.observability.inference_usage import OPT_IN_VARIABLE, is_opted_in
from service.observability.telemetry import MetricsPage, Telemetry
from service.observability.vllm_names import with_vllm_names
from service.server.listener import check_free
from service.server.server import Server
from service.settings.config import Settings

_log = logging.getLogger(__name__)


async def serve(
    settings: Settings,
    load_model: LoadModel,
    stop: StopSignal,
    reload: Reload[Settings] | None = None,
    *,
    describe_model: LoadModel | None = None,
) -> None:
    """Serve from start to stop; `describe_model` is that of `Server.load`.

    Return when drained after `stop`. Raise StartError, ModelLoadError or EngineDied.
    """
    newest_names = is_opted_in(os.environ.get(OPT_IN_VARIABLE))
    telemetry = Telemetry(settings.otlp_endpoint, newest_names=newest_names)
    try:
        check_free(settings.metrics_host, settings.metrics_port)
        page = MetricsPage(with_vllm_names(telemetry.registry), settings.metrics_host, settings.metrics_port)
        try:
            telemetry.watch_loop()
            server = Server(settings, telemetry)
            load = partial(server.load, settings.served_models(), load_model, describe_model)
            await _serve(server, settings, load, stop, reload)
        finally:
            page.close()
    finally:
        await asyncio.to_thread(telemetry.shutdown)


async def _serve(
    server: Server,
    settings: Settings,
    load: Callable[[], Awaitable[None]],
    stop: StopSignal,
    reload: Reload[Settings] | None,
) -> None:
    """Load the models by `load`, and serve until a stop is requested, then drain."""
    stopping = asyncio.create_task(stop.wait())
    following: asyncio.Task[None] | None = None
    try:
        port = await server.start()
        _log.info("listening", extra={"fields": {"host": settings.host, "port": port}})
        if not await _completes_before_stop(stopping, load()):
            return
        _log.info("serving")
        if reload is not None:
            following = asyncio.create_task(reload.follow(server.apply))
        if not await _completes_before_stop(stopping, server.watch()):
            _log.info("draining")
            await stop.until_drained(server.drain(stop.delay_s(settings.drain_delay_s)))
    finally:
        stopping.cancel()
        if following is not None:
            following.cancel()
        await server.close()
    _log.info("stopped")


async def _completes_before_stop(stopping: asyncio.Task[None], work: Awaitable[None]) -> bool:
    """Return whether `work` was done before the stop, which cancels it."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait((stopping, task), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
            return True
        return False
    finally:
        task.cancel()
