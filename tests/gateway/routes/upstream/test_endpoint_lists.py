"""The cached lists of endpoints: one per credential, their lifetime and their number."""

from __future__ import annotations

from collections import Counter

import pytest
from sluice.v1 import endpoint_pb2, model_pb2

from gateway.dialects.seam.failure import Failure, Reason
from gateway.routes.upstream.endpoint_lists import EndpointLists
from gateway.upstream.caller import Caller


class Source:
    """Lists one endpoint named after the caller's credential, and counts the calls per credential."""

    def __init__(self) -> None:
        self.num_listed: Counter[str | None] = Counter()

    async def list_endpoints(self, caller: Caller) -> list[endpoint_pb2.Endpoint]:
        """Return the endpoints that the caller may see."""
        self.num_listed[caller.authorization] += 1
        return [endpoint_pb2.Endpoint(name=f"of {caller.authorization}")]

    async def list_models(self, caller: Caller) -> list[model_pb2.Model]:
        """Return the models that the caller may use."""
        return [model_pb2.Model(name=f"model of {caller.authorization}", tasks=[model_pb2.TASK_CHAT])]


class Clock:
    """A clock in seconds, set by assignment."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("others", [[None, ""], ["Bearer a", "bearer a"], ["Bearer a", "Bearer a "], ["ä", "Ã¤"]])
async def test_different_credentials_have_separate_lists(others: list[str | None]) -> None:
    """Each credential has its own list; a missing one differs from an empty one."""
    source = Source()
    lists = EndpointLists(source, Clock())
    for authorization in [*others, *others]:
        (endpoint,) = await lists.visible_to(Caller("r", authorization))
        assert endpoint.name == f"of {authorization}"
    assert set(source.num_listed.values()) == {1}


async def test_list_expires_after_two_seconds() -> None:
    """Requests of one credential share its list until it expires; then it is requested again."""
    source, clock = Source(), Clock()
    lists = EndpointLists(source, clock)
    for now, num_listed in ((100.0, 1), (101.9, 1), (102.0, 2), (103.9, 2), (104.1, 3)):
        clock.now = now
        await lists.visible_to(Caller("r", "Bearer a"))
        assert source.num_listed["Bearer a"] == num_listed


async def test_number_of_cached_lists_is_bounded() -> None:
    """New credentials evict the oldest lists."""
    source, clock = Source(), Clock()
    lists = EndpointLists(source, clock)
    await lists.visible_to(Caller("r", "first"))
    for i in range(1023):
        await lists.visible_to(Caller("r", str(i)))
    await lists.visible_to(Caller("r", "first"))
    assert source.num_listed["first"] == 1
    await lists.visible_to(Caller("r", "one more"))
    await lists.visible_to(Caller("r", "first"))
    assert source.num_listed["first"] == 2


async def test_failed_list_call_is_not_cached() -> None:
    """After a failure the next request asks the service again."""

    class Failing(Source):
        async def list_endpoints(self, caller: Caller) -> list[endpoint_pb2.Endpoint]:
            found = await super().list_endpoints(caller)
            if self.num_listed[caller.authorization] == 1:
                raise ConnectionError
            return found

    lists = EndpointLists(Failing(), Clock())
    with pytest.raises(ConnectionError):
        await lists.visible_to(Caller("r", "a"))
    assert [each.name for each in await lists.visible_to(Caller("r", "a"))] == ["of a"]


async def test_key_without_the_endpoints_scope_gets_the_models() -> None:
    """A key without the right to list endpoints gets the models' own; other failures are reported."""

    class Closed(Source):
        async def list_endpoints(self, caller: Caller) -> list[endpoint_pb2.Endpoint]:
            known = caller.authorization == "known"
            raise Failure(Reason.PERMISSION_DENIED if known else Reason.UNAUTHENTICATED, "no")

    lists = EndpointLists(Closed(), Clock())
    (endpoint,) = await lists.visible_to(Caller("r", "known"))
    assert (endpoint.name, endpoint.task, endpoint.is_model) == ("model of known", model_pb2.TASK_CHAT, True)
    assert [entity.model for entity in endpoint.entities] == ["model of known"]
    with pytest.raises(Failure):
        await lists.visible_to(Caller("r", "stranger"))
