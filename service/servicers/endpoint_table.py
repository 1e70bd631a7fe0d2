"""The endpoints beside the models' own.

Owns what is behind each name: the endpoints of the settings, which never change, and those that callers made, which a
file keeps if there is one. Only the loop's thread may call it; the file is written on another. It doesn't know which
models are served, nor what they can do.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator, Mapping

from sluice.v1 import endpoint_pb2

from service.errors import DeploymentNotFound, EndpointNotFound, EndpointReadOnly, ModelNotFound, TooManyEndpoints
from service.servicers.endpoint_file import EndpointFile
from service.servicers.traffic import Draw, draw_entity

MAX_ENDPOINTS = 1000  # each change writes them all


class EndpointTable:
    """All such endpoints. Messages that it gives out are not to be changed."""

    def __init__(
        self,
        configured: Iterable[endpoint_pb2.Endpoint] = (),
        made: Iterable[endpoint_pb2.Endpoint] = (),
        file: EndpointFile | None = None,
        *,
        draw: Draw = random.randrange,
    ) -> None:
        """`configured` are those of the settings, `made` what `file` holds now. Without a file changes last to the end.

        A name in the file that the settings have too waits there until they no longer have it.
        """
        self._configured = {endpoint.name: endpoint for endpoint in configured}
        self._made: Mapping[str, endpoint_pb2.Endpoint] = {endpoint.name: endpoint for endpoint in made}
        self._file = file
        self._draw = draw
        self._changing = asyncio.Lock()

    def __iter__(self) -> Iterator[endpoint_pb2.Endpoint]:
        """The endpoints in the order of their names."""
        return iter(sorted({**self._made, **self._configured}.values(), key=lambda endpoint: endpoint.name))

    def find(self, name: str) -> endpoint_pb2.Endpoint | None:
        """The endpoint of that name, if there is one."""
        return self._configured.get(name) or self._made.get(name)

    def get(self, name: str) -> endpoint_pb2.Endpoint:
        """Raises EndpointNotFound."""
        if (found := self.find(name)) is None:
            raise EndpointNotFound(name)
        return found

    def choose(self, name: str, deployment: str) -> endpoint_pb2.ServedEntity:
        """What serves the next request to `name`: the entity named `deployment`, or without a name one by traffic.

        Raises ModelNotFound if there is no such endpoint: to who asks for an answer, endpoints and models are alike.
        Raises DeploymentNotFound if it has no such deployment.
        """
        endpoint = self.find(name)
        if endpoint is None:
            raise ModelNotFound(name)
        if not deployment:
            return draw_entity(endpoint.entities, self._draw)
        for entity in endpoint.entities:
            if entity.name == deployment:
                return entity
        raise DeploymentNotFound(name, deployment)

    async def change(
        self, name: str, make: Callable[[endpoint_pb2.Endpoint | None], endpoint_pb2.Endpoint | None]
    ) -> endpoint_pb2.Endpoint | None:
        """Put `make(the endpoint of that name, or None)` in its place, None for none, and return it.

        Changes go one after the other, and are on the disk when this returns, even if its caller leaves meanwhile; one
        that can't be written is not made. Raises EndpointReadOnly for an endpoint of the settings, TooManyEndpoints,
        OSError, and what `make` raises.
        """
        return await asyncio.shield(self._change(name, make))

    async def _change(
        self, name: str, make: Callable[[endpoint_pb2.Endpoint | None], endpoint_pb2.Endpoint | None]
    ) -> endpoint_pb2.Endpoint | None:
        async with self._changing:
            if name in self._configured:
                raise EndpointReadOnly(name, "stands in the service's settings; it is changed there")
            endpoint = make(self._made.get(name))
            others = {other: each for other, each in self._made.items() if other != name}
            made = others if endpoint is None else {**others, name: endpoint}
            if len(made) > max(len(self._made), MAX_ENDPOINTS):
                raise TooManyEndpoints(MAX_ENDPOINTS)
            if self._file is not None:
                await asyncio.to_thread(self._file.write, made.values())
            self._made = made
            return endpoint
