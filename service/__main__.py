"""Start the service from its settings.

The exit code is 0 after a stop by SIGTERM or SIGINT, 1 if the service can't start or an engine died, and 2 for an
invalid setting; 1 and 2 come with one line on standard error. A second signal ends the process at once.
"""

from __future__ import annotations

import gc
import signal

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback for Ctrl-C during the imports
    gc.disable()  # imports make many objects and no garbage; looking for it takes 7 % of their time

import sys
from functools import partial
from typing import Final

import uvloop

from process.errors import ConfigError
from process.lifetime.abandoned import exit_if_abandoned, run_abandonable
from process.lifetime.core_dumps import disable_core_dumps
from process.lifetime.exit import exit_with, require_address_space, shortage
from process.lifetime.scheduling import use_batch_policy
from process.lifetime.stop import StopSignal
from process.logs.logs import configure_logs
from process.settings.process_settings import read_settings
from process.settings.reload import Reload
from service.deployment.deployment import LoadModel
from service.engine.interface.port import StepObserver
from service.engine.link.process_memory import freeze_heap, limit_primitive_cache
from service.engine.link.worker.worker_process import end_unused_workers, prestart_workers
from service.generation.errors import ModelLoadError
from service.loading.model import load_model
from service.observability.logs import call_context
from service.registry.models import ServedModel
from service.server.engine_watch import EngineDied
from service.server.listener import StartError
from service.server.serve import serve
from service.settings.config import PROGRAM, Settings
from service.settings.model_settings import ModelSettings

_LEAST_ADDRESS_SPACE: Final = 1 << 30  # bytes; with less, gRPC aborts the process


async def load_from_folder(settings: ModelSettings, observer: StepObserver) -> ServedModel:
    """Load a model from its folder, off the event loop. A stop does not wait for it. Raise ModelLoadError."""
    served = await run_abandonable("load", partial(load_model, settings, observer))
    freeze_heap()
    return served


async def describe_from_folder(settings: ModelSettings, observer: StepObserver) -> ServedModel:
    """Load all of a model but its weights, as `load_from_folder` does. Raise ModelLoadError."""
    return await run_abandonable("load", partial(load_model, settings, observer, is_asleep=True))


def main(load: LoadModel = load_from_folder) -> None:
    """Run the service until a signal stops it. `load` loads a model from its settings."""
    gc.enable()
    use_batch_policy()
    try:
        settings = read_settings(Settings, sys.argv[1:])
    except ConfigError as error:
        exit_with(PROGRAM, error, 2)
    configure_logs(settings.log_level, call_context)
    require_address_space(PROGRAM, _LEAST_ADDRESS_SPACE)
    # Both before engines start, because their processes inherit it:
    limit_primitive_cache()
    if settings.stored_responses.encryption_key_file is not None or settings.engine.cache_key_file is not None:
        disable_core_dumps()
    if load is load_from_folder:
        prestart_workers(_num_first_workers(settings))
    try:
        uvloop.run(_run(settings, load))
    except (StartError, ModelLoadError, EngineDied) as error:
        exit_with(PROGRAM, error, 1)
    except (MemoryError, RuntimeError, OSError) as error:
        if (reason := shortage(error)) is None:
            raise
        exit_with(PROGRAM, reason, 1)
    finally:
        end_unused_workers()
    exit_if_abandoned(0)


def _num_first_workers(settings: Settings) -> int:
    """Return the number of worker processes that the start needs: on demand, one reads all models but the pinned."""
    models = settings.served_models()
    if settings.loads_on_demand:
        num_pinned = sum(model.pinned for model in models)
        return num_pinned + (num_pinned < len(models))
    return sum(model.engine.worker == "process" for model in models if model.engine)


async def _run(settings: Settings, load: LoadModel) -> None:
    describe = describe_from_folder if load is load_from_folder else None
    reload = Reload(settings, partial(read_settings, Settings, sys.argv[1:]))
    await serve(settings, load, StopSignal(), reload, describe_model=describe)


if __name__ == "__main__":
    main()
