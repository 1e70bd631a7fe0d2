"""One measurement: calibration of the prompt length, warm-up, and the measured requests."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable

import uvloop

from cli.bench.dialects import DIALECTS, BenchRequest, DialectName
from cli.bench.grpc_sender import GrpcSender
from cli.bench.http_sender import Address, HttpSender
from cli.bench.load import Load, Sender
from cli.bench.plan import Outcome, Plan, Shape, Target
from cli.bench.prompts import Prompts
from cli.calls.server import ServerError

_FEW, _MANY = 8, 40  # words of the two calibration prompts


def measure(target: Target, shape: Shape, plan: Plan, warm_up: int, report_progress: Callable[[int], None]) -> Outcome:
    """Measure a server. `report_progress` is called with the number of completed requests.

    Raise ServerError if the calibration requests fail.
    """
    return uvloop.run(_measure(target, shape, plan, warm_up, report_progress))


async def _measure(
    target: Target, shape: Shape, plan: Plan, warm_up: int, report_progress: Callable[[int], None]
) -> Outcome:
    """Warm up, calibrate the prompts, and send the plan's requests."""
    sender = _sender(target)
    prompts = Prompts(plan.seed)

    def make_request() -> BenchRequest:
        return BenchRequest(
            target.model, prompts.prompt(shape.prompt_tokens), shape.max_tokens, shape.ignores_end, shape.parameters
        )

    load = Load(sender, make_request, report_progress)

    async def work() -> None:
        await _calibrate(sender, target, shape, prompts)
        if warm_up:
            await Load(sender, make_request).run(Plan(min(warm_up, plan.concurrency), num_requests=warm_up))
        await load.run(plan)

    task = asyncio.create_task(work())
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        return Outcome(load.records(), is_interrupted=True)
    finally:
        with contextlib.suppress(asyncio.CancelledError):
            await sender.close()
    return Outcome(load.records(), is_interrupted=False)


def _sender(target: Target) -> Sender:
    """Return the sender for the target. Raise ServerError if the target is invalid."""
    try:
        if target.dialect == DialectName.GRPC:
            return GrpcSender(target.url, target.key, target.ca_file, target.timeout_s)
        address = Address(target.url, target.ca_file)
        return HttpSender(address, DIALECTS[target.dialect], target.key, target.timeout_s)
    except (ValueError, OSError) as error:
        raise ServerError(str(error)) from error


async def _calibrate(sender: Sender, target: Target, shape: Shape, prompts: Prompts) -> None:
    """Check that the server responds, and calibrate the tokens per word if it reports prompt tokens."""
    counts: list[tuple[int, int]] = []
    for num in (_FEW, _MANY):
        request = BenchRequest(target.model, prompts.words(num), 1, shape.ignores_end, shape.parameters)
        record = (await sender.send(request)).record()
        if record.error and record.error != "broken stream":  # some servers do not send the end of a one-token answer
            hint = f"no server at {target.url}: " if record.error in {"no connection", "UNAVAILABLE"} else ""
            raise ServerError(f"{hint}{record.detail or record.error}")
        if record.prompt_tokens:
            counts.append((num, record.prompt_tokens))
    if len(counts) == 2:
        prompts.calibrate(*counts)
