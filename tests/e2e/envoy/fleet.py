"""A real Envoy with the fleet's configuration, in front of services that return their names."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as aio_health

from runner.proxy.eds import Host
from runner.proxy.fleet import Fleet
from runner.proxy.production import production_config, write_first_hosts
from runner.tls.development_tls import DevelopmentTls
from tests.e2e.envoy_process import EnvoyProcess
from tests.e2e.stack import free_ports
from tests.waiting import GUARD_S

CALL = "/sluice.v1.ChatService/Chat"
HEALTH_NAME = "sluice.v1.ChatService"


class Replica:
    """A service that answers every call with its name, or runs `failure` instead."""

    def __init__(self, name: str, tls: DevelopmentTls | None = None) -> None:
        self.name = name
        self.num_calls = 0
        self.failure: Callable[[Any], Any] | None = None
        self.trailers: tuple[tuple[str, str | bytes], ...] = ()
        self.release = asyncio.Event()
        self.release.set()
        self.health = aio_health.HealthServicer()
        self._server = aio.server()
        handler = grpc.method_handlers_generic_handler(
            "sluice.v1.ChatService", {"Chat": grpc.unary_unary_rpc_method_handler(self._answer)}
        )
        self._server.add_generic_rpc_handlers((handler,))
        health_pb2_grpc.add_HealthServicer_to_server(self.health, self._server)
        if tls is None:
            port = self._server.add_insecure_port("127.0.0.1:0")
        else:
            authority, key, chain = (
                (tls.folder / f"{name}.pem").read_bytes() for name in ("ca", "server-key", "server")
            )
            mutual = grpc.ssl_server_credentials([(key, chain)], authority, require_client_auth=True)
            port = self._server.add_secure_port("127.0.0.1:0", mutual)
        self.host = Host("127.0.0.1", port)

    async def start(self) -> None:
        """Start the server and report it as healthy."""
        await self.health.set(HEALTH_NAME, health_pb2.HealthCheckResponse.SERVING)
        await self._server.start()

    async def stop(self) -> None:
        """Stop the server at once."""
        await self._server.stop(None)

    async def _answer(self, request: bytes, context: Any) -> bytes:
        self.num_calls += 1
        await self.release.wait()
        if self.failure is not None:
            await self.failure(context)
        context.set_trailing_metadata(self.trailers)
        return self.name.encode()


@contextlib.asynccontextmanager
async def replicas(*names: str, tls: DevelopmentTls | None = None) -> AsyncIterator[list[Replica]]:
    """Run replicas with these names."""
    found = [Replica(name, tls) for name in names]
    await asyncio.gather(*(each.start() for each in found))
    try:
        yield found
    finally:
        await asyncio.gather(*(each.stop() for each in found))


class FleetEnvoy(EnvoyProcess):
    """An Envoy with a fleet's configuration. `inner_port` is the gateways' listener."""

    def __init__(
        self, folder: Path, tls: DevelopmentTls | None = None, policy: Any = None, **pools: list[Replica]
    ) -> None:
        """`policy` replaces the load balancing policy for a pool's calls without an affinity key."""
        (self.inner_port,) = free_ports(1)
        self.folder = folder

        def change(config: dict[str, Any]) -> None:
            listen = config["static_resources"]["listeners"][0]["address"]["socket_address"]["port_value"]
            services = [
                {"name": name, "models": [] if name == "service" else [f"org/{name}"], "hosts": [r.host for r in hosts]}
                for name, hosts in pools.items()
            ]
            fleet = Fleet.model_validate(
                {
                    "listen": f"127.0.0.1:{listen}",
                    "inner": f"127.0.0.1:{self.inner_port}",
                    "admin": f"127.0.0.1:{config['admin']['address']['socket_address']['port_value']}",
                    "hosts_folder": folder,
                    "services": services,
                    "tls": tls and {"certificates": tls.folder, "secrets": folder},
                }
            )
            write_first_hosts(fleet)
            config.clear()
            config.update(production_config(fleet))
            for cluster in config["static_resources"]["clusters"] if policy else ():
                if cluster["name"] in pools:
                    del cluster["lb_policy"]
                    cluster["load_balancing_policy"] = policy

        super().__init__(1, 1, change, healthy=False)
        for name, hosts in pools.items():
            self.until_members(name, len(hosts))

    def until_members(self, pool: str, count: int) -> None:
        """Return when Envoy regards `count` replicas as healthy in each cluster of the pool."""
        names = [f"cluster.{name}.membership_healthy" for name in (pool, f"{pool}-affinity")]
        self.until(lambda: all(self.stat(name) == count for name in names))


async def ask(port: int, **headers: str) -> str:
    """Return the name of the replica that answers a call with these headers."""
    async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        return await ask_on(channel, **headers)


async def ask_on(channel: aio.Channel, **headers: str) -> str:
    """Return the name of the replica that answers a call on an open channel."""
    metadata = [(f"x-sluice-{name}", value) for name, value in headers.items()]
    call: Any = channel.unary_unary(CALL)  # of bytes
    answer: bytes = await call(b"", timeout=GUARD_S, metadata=metadata)
    return answer.decode()


async def replicas_of_keys(envoy: FleetEnvoy, *names: str) -> dict[str, str]:
    """Return the replica that answers each of 60 affinity keys, once all of these replicas get calls.

    Envoy's threads update hosts with a delay, which may end between the calls of the first keys and of the last ones.
    """
    async with aio.insecure_channel(envoy.target) as channel:

        async def answers() -> dict[str, str]:
            return {key: await ask_on(channel, affinity=key) for key in map(str, range(60))}

        while set((await answers()).values()) != set(names):
            pass
        return await answers()
