"""One measurement: requests that tell how long prompts get, then those that warm, then those that count."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable

import uvloop

from cli.bench.dialects import DIALECTS, Ask, Way
from cli.bench.grpc_sender import GrpcSender
from cli.bench.http_sender import Address, HttpSender
from cli.bench.load import Load, Sender
from cli.bench.plan import Outcome, Plan, Shape, Target
from cli.bench.prompts import Prompts
from cli.calls.server import ServerError

_FEW, _MANY = 8, 40  # words of the first two prompts


def measure(target: Target, shape: Shape, plan: Plan, warm_up: int, watch: Callable[[int], None]) -> Outcome:
    """`watch` is told how many requests have ended. Raises ServerError where the first requests already fail."""
    return uvloop.run(_measure(target, shape, plan, warm_up, watch))


async def _measure(target: Target, shape: Shape, plan: Plan, warm_up: int, watch: Callable[[int], None]) -> Outcome:
    sender = _sender(target)
    prompts = Prompts(plan.seed)

    def ask() -> Ask:
        return Ask(
            target.model, prompts.prompt(shape.prompt_tokens), shape.max_tokens, shape.ignores_end, shape.parameters
        )

    load = Load(sender, ask, watch)

    async def work() -> None:
        await _learn(sender, target, shape, prompts)
        if warm_up:
            await Load(sender, ask).run(Plan(min(warm_up, plan.concurrency), num_requests=warm_up))
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
    """A way there. Raises ServerError."""
    try:
        if target.dialect == Way.GRPC:
            return GrpcSender(target.url, target.key, target.ca_file, target.timeout_s)
        address = Address(target.url, target.ca_file)
        return HttpSender(address, DIALECTS[target.dialect], target.key, target.timeout_s)
    except (ValueError, OSError) as error:
        raise ServerError(str(error)) from error


async def _learn(sender: Sender, target: Target, shape: Shape, prompts: Prompts) -> None:
    """What a word is in tokens, where the server tells; and that it answers at all."""
    counts: list[tuple[int, int]] = []
    for num in (_FEW, _MANY):
        asked = Ask(target.model, prompts.words(num), 1, shape.ignores_end, shape.parameters)
        record = (await sender.send(asked)).record()
        if record.error and record.error != "broken stream":  # of an answer of one token some servers tell no end
            hint = f"no server at {target.url}: " if record.error in {"no connection", "UNAVAILABLE"} else ""
            raise ServerError(f"{hint}{record.detail or record.error}")
        if record.prompt_tokens:
            counts.append((num, record.prompt_tokens))
    if len(counts) == 2:
        prompts.learn(*counts)
