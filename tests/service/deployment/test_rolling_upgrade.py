"""Endpoints in a store shared by replicas of two versions: entries that the older one can't read are never lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from redis import Redis
from sluice.v1 import endpoint_pb2

from tests.redis_server import RedisServer
from tests.service.deployment.test_endpoints_shared import until_equal
from tests.service.endpoint_fakes import Serving, both, serving
from tests.service.fakes import rejection_of
from tests.service.observability.test_observation import samples
from tests.waiting import GUARD_S

Code = grpc.StatusCode
KEY = "sluice:endpoints"


class NewerReplica:
    """A replica of a newer version that writes the text of the endpoints."""

    def __init__(self, url: str) -> None:
        self._redis: Any = Redis.from_url(url, decode_responses=True)

    @property
    def text(self) -> str:
        text: str = self._redis.hget(KEY, "text")
        return text

    @property
    def entries(self) -> dict[str, Any]:
        return {entry["name"]: entry for entry in json.loads(self.text)["endpoints"]}

    def write(self, text: str) -> None:
        """Write the next revision."""
        revision = (self._redis.hget(KEY, "revision") or "0").partition("-")[0]
        self._redis.hset(KEY, mapping={"revision": f"{int(revision) + 1}-newer", "text": text})

    def change(self, name: str, entry: dict[str, Any]) -> None:
        """Replace one entry."""
        entries = self.entries | {name: entry}
        self.write(json.dumps({"endpoints": [*entries.values()], "schema": 2}))

    def close(self) -> None:
        self._redis.close()


@pytest.fixture
def newer(redis: RedisServer) -> Iterator[NewerReplica]:
    replica = NewerReplica(redis.url)
    yield replica
    replica.close()


@pytest.fixture
def settings(redis: RedisServer) -> dict[str, Any]:
    return {"store": {"redis_url": redis.url, "redis_timeout_s": GUARD_S}}


def num_unreadable(run: Serving) -> list[float]:
    """Return the values of the metric of endpoints that the replica can't read."""
    return list(samples(run, "sluice_endpoints_unreadable").values())


async def delete(run: Serving, name: str) -> None:
    await run.endpoints.DeleteEndpoint(endpoint_pb2.DeleteEndpointRequest(name=name))


async def test_an_entry_that_an_older_replica_cannot_read_is_kept(
    newer: NewerReplica, settings: dict[str, Any]
) -> None:
    """The entry survives any change of the older replica, which rejects changes of the entry itself."""
    async with serving("a", "b", **settings) as run:
        for number in range(4):
            await run.create(f"x{number}", *both())
        pool = {"name": "pool", "entities": [{"name": "p", "pool": "gpu", "traffic_percentage": 100}]}
        newer.change("pool", pool)
        await until_equal(lambda: reason_of_create(run, "pool"), "ENDPOINT_EXISTS")
        assert num_unreadable(run) == [1]
        for change in (run.update("pool", *both()), delete(run, "pool")):
            rejection = await rejection_of(change)
            assert (rejection.code, rejection.info.reason) == (Code.FAILED_PRECONDITION, "ENDPOINT_READ_ONLY")
            assert "newer version" in rejection.text
        await run.create("x4", *both())
        await delete(run, "x0")
        assert set(newer.entries) == {"x1", "x2", "x3", "x4", "pool"}
        assert newer.entries["pool"] == pool
        assert json.loads(newer.text)["schema"] == 2
        assert await run.names() == ["a", "b", "encoder", "x1", "x2", "x3", "x4"]


async def reason_of_create(run: Serving, name: str) -> str:
    """Return the reason of the error for a new endpoint over a missing model."""
    reason: str = (await rejection_of(run.create(name, ("a", "missing", 100)))).info.reason
    return reason


async def test_unknown_fields_of_an_endpoint_are_kept(newer: NewerReplica, settings: dict[str, Any]) -> None:
    """An endpoint keeps all its unknown fields if another one is changed, and its own ones if it is changed itself."""
    async with serving("a", "b", **settings) as run:
        await run.create("x", *both())
        entry = newer.entries["x"] | {"sticky": True, "config_version": 7}
        entry["entities"][0]["retries"] = 2
        newer.change("x", entry)
        await until_equal(lambda: version(run, "x"), 7)
        await run.create("y", *both())
        assert newer.entries["x"] == entry
        assert (await run.update("x", *both(10, 90))).config_version == 8
        assert newer.entries["x"]["sticky"] is True
        assert [each["traffic_percentage"] for each in newer.entries["x"]["entities"]] == [10, 90]


async def version(run: Serving, name: str) -> int:
    return (await run.get(name)).config_version


@pytest.mark.parametrize("text", ["{", '{"endpoints": {"by_name": {}}}'])
async def test_a_text_that_cannot_be_read_is_not_overwritten(
    newer: NewerReplica, settings: dict[str, Any], text: str
) -> None:
    """Known endpoints are served, and changes are rejected until the text can be read again."""
    async with serving("a", "b", **settings) as run:
        await run.create("x", *both())
        readable = newer.text
        newer.write(text)
        for _ in range(2):
            rejection = await rejection_of(run.create("y", *both()))
            assert (rejection.code, rejection.info.reason) == (Code.UNAVAILABLE, "ENDPOINTS_UNAVAILABLE")
        assert newer.text == text
        assert "x" in await run.names()
        newer.write(readable)
        await run.create("y", *both())
        assert set(newer.entries) == {"x", "y"}
