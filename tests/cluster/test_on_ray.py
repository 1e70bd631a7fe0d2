"""Replicas on a Ray cluster's nodes: scaled by load, replaced without loss, and restarted after a node dies."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.cluster.ray_fleet import RayFleet
from tests.e2e.faults.test_drain import check_all_done, under, until_num
from tests.e2e.stack import ROOT
from tests.soak.load import Load
from tests.waiting import GUARD_S

pytestmark = pytest.mark.ray

SETTINGS = {"auth": {"allow_anonymous": True}}  # and the bundled models
QUICK = {"target_sequences": 2, "up_after_s": 1, "down_after_s": 4}


def pool(least: int, most: int, name: str = "service", **others: Any) -> dict[str, Any]:
    return {"name": name, "settings": SETTINGS, "min_replicas": least, "max_replicas": most, **others}


async def until_served(fleet: RayFleet, count: int) -> None:
    await asyncio.to_thread(fleet.until_served, count)


async def test_replicas_are_scaled_with_the_load() -> None:
    """Twelve clients scale the pool to three replicas, and then it returns to one; no request is lost."""
    with RayFleet([pool(1, 3, scaling=QUICK)]) as fleet:
        await until_served(fleet, 1)
        load = Load(fleet.url, num_callers=12)
        async with under(load):
            await until_served(fleet, 3)
            await until_num(load, 4 * load.num_callers)
        few = Load(fleet.url, num_callers=1)
        async with under(few):
            await until_served(fleet, 1)
    check_all_done(load)
    check_all_done(few)


async def test_replacing_replicas_loses_no_request() -> None:
    """A change of the file replaces the replicas under load, and another keeper takes over running ones."""
    with RayFleet([pool(2, 2)]) as fleet:
        await until_served(fleet, 2)
        load = Load(fleet.url, num_callers=6)
        async with under(load):
            before = fleet.hosts()
            fleet.deploy(revision="2")
            await asyncio.to_thread(fleet.until, lambda: not set(before) & set(fleet.hosts()))
            await until_served(fleet, 2)
            there = fleet.hosts()
            assert fleet.end("keeper") == 0
            fleet.start_keeper()
            await asyncio.to_thread(fleet.until, lambda: fleet.output().count("serves at") == 6)
            await until_num(load, 4 * load.num_callers)
            assert fleet.hosts() == there
        check_all_done(load)
        fleet.end("keeper")
        fleet.start_keeper("--down")
        assert fleet.wait("keeper") == 0
        assert fleet.hosts() == []


async def test_death_of_a_node_ends_only_its_streams() -> None:
    """At most the streams of the node's replica are lost; others keep serving, and another replica starts elsewhere."""
    with RayFleet([pool(2, 2)], num_nodes=2) as fleet:
        await until_served(fleet, 2)
        load = Load(fleet.url, num_callers=6)
        async with under(load):
            before = fleet.hosts()
            fleet.cluster.remove_node(fleet.nodes[0], allow_graceful=False)
            await asyncio.to_thread(fleet.until, lambda: set(fleet.hosts()) != set(before))
            await asyncio.to_thread(fleet.until, lambda: len(fleet.hosts()) == 2)
            await until_served(fleet, 2)
            lost = sum(load.lost().values())
            await until_num(load, 8 * load.num_callers)
            assert sum(load.lost().values()) == lost
        print(f"{load.outcomes.total()} requests, {lost} lost")  # noqa: T201 a figure of docs/operation/reliability.md
        assert lost <= load.num_callers, load.lost()


async def test_empty_pool_starts_a_replica_when_called() -> None:
    """A call to an empty pool gets a retry delay, and succeeds later; without calls the pool becomes empty again.

    The other pool has a separate count and serves all the time.
    """
    second = {**SETTINGS, "models": [{"name": "second", "path": str(ROOT / "demo" / "model")}]}
    body = {"max_tokens": 4, "messages": [{"role": "user", "content": "Hello!"}]}
    with RayFleet([pool(1, 1), {**pool(0, 1, "second", scaling=QUICK), "settings": second}]) as fleet:
        await until_served(fleet, 1)
        assert fleet.hosts("second") == []
        async with httpx.AsyncClient(base_url=fleet.url, timeout=GUARD_S) as caller:
            refused: set[tuple[int, str | None]] = set()
            while (answer := await ask(caller, {"model": "second", **body})).status_code != 200:
                refused.add((answer.status_code, answer.headers.get("retry-after")))
                await asyncio.sleep(float(answer.headers["retry-after"]))
                assert (await ask(caller, {"model": "sluice-demo", **body})).status_code == 200
        assert refused == {(503, "1")}
        assert answer.json()["choices"][0]["finish_reason"] == "length"
        await asyncio.to_thread(fleet.until, lambda: fleet.hosts("second") == [])
        assert len(fleet.hosts()) == 1


async def ask(caller: httpx.AsyncClient, body: dict[str, Any]) -> httpx.Response:
    return await caller.post("/v1/chat/completions", json=body)
