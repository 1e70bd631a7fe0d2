"""Routing by Envoy's configuration for a fleet: a real Envoy in front of services that return their names."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml
from grpc import aio

from runner.proxy.eds import write_hosts
from runner.tls.development_tls import DevelopmentTls
from service.interceptors.load_report import as_binary, as_text
from tests.e2e.envoy.fleet import CALL, FleetEnvoy, ask, ask_on, replicas, replicas_of_keys
from tests.e2e.envoy.http2 import begun_calls
from tests.e2e.stack import ROOT
from tests.waiting import GUARD_S


async def test_affinity_key_selects_a_replica_and_model_selects_a_pool(tmp_path: Path) -> None:
    """Both listeners route a key to the same replica and a model to its pool.

    Other calls use the whole default pool.
    """
    async with replicas("a", "b", "c", "large") as (a, b, c, large):
        envoy = await asyncio.to_thread(FleetEnvoy, tmp_path, service=[a, b, c], large=[large])
        with envoy:
            for key, home in list((await replicas_of_keys(envoy, "a", "b", "c")).items())[:12]:
                assert {await ask(port, affinity=key) for port in (envoy.port, envoy.inner_port)} == {home}
            for headers in ({"model": "org%2Flarge"}, {"model": "org%2Flarge", "affinity": "1"}):
                assert await ask(envoy.inner_port, **headers) == "large"
            assert await ask(envoy.port, model="org%2Fother") in {"a", "b", "c"}
            assert {await ask(envoy.port) for _ in range(40)} == {"a", "b", "c"}


async def test_calls_of_a_hot_key_are_spread_over_replicas(tmp_path: Path) -> None:
    """Of many concurrent calls with one key, no replica gets more than 1.5 times its share."""
    async with replicas("a", "b", "c") as hosts:
        envoy = await asyncio.to_thread(FleetEnvoy, tmp_path, service=hosts)
        with envoy:
            await replicas_of_keys(envoy, "a", "b", "c")
            num_before = sum(each.num_calls for each in hosts)
            for each in hosts:
                each.release.clear()
            calls = [asyncio.create_task(ask(envoy.port, affinity="hot")) for _ in range(30)]
            while sum(each.num_calls for each in hosts) < num_before + 30:  # noqa: ASYNC110  a counter has no event
                await asyncio.sleep(0.01)
            for each in hosts:
                each.release.set()
            shares = Counter(await asyncio.gather(*calls))
            assert len(shares) > 1
            assert max(shares.values()) <= 16


async def test_replicas_are_added_and_removed_by_their_file(tmp_path: Path) -> None:
    """An added replica gets calls, a removed one gets none, and the keys of the others mostly stay."""
    async with replicas("a", "b", "c") as (a, b, c):
        envoy = await asyncio.to_thread(FleetEnvoy, tmp_path, service=[a, b])
        with envoy:
            before = await replicas_of_keys(envoy, "a", "b")
            write_hosts(tmp_path, "service", [each.host for each in (a, b, c)])
            between = await replicas_of_keys(envoy, "a", "b", "c")
            moved = [key for key in before if between[key] not in {"c", before[key]}]
            assert len(moved) <= 6  # in addition to those of c
            write_hosts(tmp_path, "service", [each.host for each in (a, c)])
            after = await replicas_of_keys(envoy, "a", "c")
            moved = [key for key in between if between[key] not in {"b", after[key]}]
            assert len(moved) <= 6  # in addition to those of b
            assert {await ask(envoy.port) for _ in range(20)} == {"a", "c"}


@pytest.mark.parametrize(
    ("reason", "num_failed"),
    [("DRAINING", 0), ("STARTING", 0), ("MODEL_NOT_LOADED", 0), ("MODEL_ASLEEP", 0), ("INTERNAL", 100)],
)
async def test_calls_rejected_before_their_start_are_retried(reason: str, num_failed: int, tmp_path: Path) -> None:
    """Only rejections before the start are retried, since another failure might repeat at every replica."""
    async with replicas("a", "b") as (a, b):

        async def reject(context: Any) -> None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "not now", (("x-sluice-reason", reason),))

        a.failure = reject
        envoy = await asyncio.to_thread(FleetEnvoy, tmp_path, service=[a, b])
        with envoy:
            ends: Counter[str] = Counter()
            while a.num_calls < 100:
                try:
                    ends[await ask(envoy.port)] += 1
                except aio.AioRpcError as error:
                    ends[error.code().name] += 1
            assert set(ends) <= {"b", "UNAVAILABLE"}
            assert ends["UNAVAILABLE"] == num_failed


async def test_expired_deadlines_eject_no_replica(tmp_path: Path) -> None:
    """A client whose calls all exceed their deadline does not make Envoy eject replicas."""
    async with replicas("a", "b") as hosts:

        async def expire(context: Any) -> None:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "too late")

        for each in hosts:
            each.failure = expire
        envoy = await asyncio.to_thread(FleetEnvoy, tmp_path, service=hosts)
        with envoy:
            for _ in range(24):
                with pytest.raises(aio.AioRpcError):
                    await ask(envoy.port)
            assert envoy.stat("cluster.service.outlier_detection.ejections_active") == 0
            assert envoy.stat("cluster.service.membership_healthy") == 2


async def test_death_of_a_gateway_ends_no_call_of_another(tmp_path: Path) -> None:
    """A gateway's connection that closes with 1,024 calls ends no call of another gateway."""
    async with replicas("a") as (a,):
        envoy = await asyncio.to_thread(FleetEnvoy, tmp_path, service=[a])
        with envoy:
            a.release.clear()
            async with aio.insecure_channel(f"127.0.0.1:{envoy.inner_port}") as channel:
                kept = asyncio.create_task(ask_on(channel))
                _, writer = await asyncio.open_connection("127.0.0.1", envoy.inner_port)
                writer.write(begun_calls(1024, CALL, b""))
                while a.num_calls < 1025:  # noqa: ASYNC110  a counter has no event
                    await asyncio.sleep(0.01)
                writer.transport.abort()
                await asyncio.to_thread(envoy.until, lambda: envoy.stat("cluster.service.upstream_rq_active") <= 1)
                assert envoy.stat("cluster.service.http2.outbound_control_flood") == 0
                a.release.set()
                assert await kept == "a"


async def test_all_connections_have_tls(tmp_path: Path) -> None:
    """Clients see a certificate; gateways, and Envoy as a client of services, must show one."""
    tls = DevelopmentTls(tmp_path / "certs", mutual=True)
    tls.make("127.0.0.1")
    async with replicas("a", "b", tls=tls) as hosts:
        envoy = await asyncio.to_thread(FleetEnvoy, tmp_path, tls, service=hosts)
        with envoy:
            known = grpc.ssl_channel_credentials(*tls.client_pems())
            stranger = grpc.ssl_channel_credentials((tls.folder / "ca.pem").read_bytes())
            for port, credentials in ((envoy.port, stranger), (envoy.inner_port, known)):
                async with aio.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
                    assert await ask_on(channel, affinity="1") in {"a", "b"}
            async with aio.secure_channel(f"127.0.0.1:{envoy.inner_port}", stranger) as channel:
                with pytest.raises(aio.AioRpcError) as failure:
                    await ask_on(channel)
            assert failure.value.code() is grpc.StatusCode.UNAVAILABLE


def documented_policy() -> Any:
    """Return the policy in docs/operation/deployment.md for a pool of unequal machines."""
    page = (ROOT / "docs" / "operation" / "deployment.md").read_text()
    text = page.partition("```yaml\nload_balancing_policy:")[2].partition("```")[0]
    return yaml.safe_load("load_balancing_policy:" + text)["load_balancing_policy"]


async def test_calls_are_weighted_by_load_reports(tmp_path: Path) -> None:
    """With the documented policy, replicas get calls in inverse proportion to the utilization that they report."""
    async with replicas("idle", "half", "full") as (idle, half, full):
        idle.trailers = (("endpoint-load-metrics", as_text(1.0, 0.0, 0.2, {})),)
        half.trailers = (("endpoint-load-metrics", as_text(1.0, 0.0, 0.4, {})),)
        full.trailers = (("endpoint-load-metrics-bin", as_binary(1.0, 0.0, 0.8, {"num_requests_waiting": 3.0})),)
        envoy = await asyncio.to_thread(FleetEnvoy, tmp_path, policy=documented_policy(), service=[idle, half, full])
        with envoy:
            async with aio.insecure_channel(envoy.target) as channel, asyncio.timeout(GUARD_S):
                while True:  # weights take effect after several reports
                    shares = Counter([await ask_on(channel) for _ in range(140)])
                    if (
                        abs(shares["idle"] - 80) <= 8
                        and abs(shares["half"] - 40) <= 8
                        and abs(shares["full"] - 20) <= 8
                    ):
                        break
