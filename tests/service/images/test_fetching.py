"""Names are resolved once for each connection, and only checked addresses are connected to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import httpcore
import pytest

from service.calls.call import Call, enter_call
from service.generation.caller import ANONYMOUS, Caller
from service.generation.errors import DeadlineExceeded, InvalidRequest
from service.images.data_url import Media
from service.images.fetching import Fetcher
from service.settings.image_settings import ImageSettings
from tests.e2e.picture_server import PictureServer
from tests.engine.fakes import until
from tests.waiting import GUARD_S


@pytest.fixture
def server() -> Iterator[PictureServer]:
    with PictureServer({"/cat.png": ("image/png; charset=binary", b"cat")}) as server:
        yield server


class NameServer:
    """Returns the given answers in turn, and records the requested names."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.requests: list[str] = []

    def __call__(self, host: str, port: int) -> list[str]:
        del port
        self.requests.append(host)
        return self.answers[min(len(self.requests), len(self.answers)) - 1]


class Network(httpcore.AnyIOBackend):
    """A network in which every address leads to this machine; it records the requested addresses."""

    def __init__(self) -> None:
        self.addresses: list[str] = []

    async def connect_tcp(self, host: str, port: int, *options: Any, **more: Any) -> httpcore.AsyncNetworkStream:
        self.addresses.append(host)
        return await super().connect_tcp("127.0.0.1", port, *options, **more)


def settings(**values: Any) -> ImageSettings:
    return ImageSettings(**{"allowed_hosts": ["*.example"], "allow_http": True, "max_fetch_s": GUARD_S, **values})


@pytest.mark.slow
async def test_image_is_fetched_from_a_host_name(server: PictureServer) -> None:
    names = NameServer(["127.0.0.1"])
    fetcher = Fetcher(settings(allow_private_addresses=True), names)
    media = await fetcher.fetch(f"http://cats.example:{server.port}/cat.png", "f", None)
    fetcher.close()
    assert (media.data, media.kind, names.requests) == (b"cat", "image/png", ["cats.example"])


@pytest.mark.slow
async def test_host_name_is_resolved_once_per_connection(server: PictureServer) -> None:
    """A name is resolved once, and the checked address is connected to even if the name has a private one by then."""
    names, network = NameServer(["1.1.1.1"], ["127.0.0.1"]), Network()
    fetcher = Fetcher(settings(), names, network)
    await fetcher.fetch(f"http://cats.example:{server.port}/cat.png", "f", None)
    assert (names.requests, network.addresses) == (["cats.example"], ["1.1.1.1"])
    with pytest.raises(InvalidRequest, match=r"\(images\.allow_private_addresses\)"):
        await fetcher.fetch(f"http://cats.example:{server.port}/cat.png", "f", None)
    fetcher.close()
    assert network.addresses == ["1.1.1.1"]


@pytest.mark.slow
async def test_private_addresses_are_skipped_for_public_ones(server: PictureServer) -> None:
    """The public address of a host with both kinds is connected to."""
    network = Network()
    fetcher = Fetcher(settings(), NameServer(["127.0.0.1", "1.1.1.1"]), network)
    await fetcher.fetch(f"http://cats.example:{server.port}/cat.png", "f", None)
    fetcher.close()
    assert network.addresses == ["1.1.1.1"]


@pytest.mark.slow
async def test_a_redirect_to_a_private_address_is_rejected(server: PictureServer) -> None:
    """A redirect to a private address is rejected even if the first host was allowed."""
    fetcher = Fetcher(settings(allow_private_addresses=True), NameServer(["127.0.0.1"]))
    target = f"http://127.0.0.1:{server.port}/cat.png"
    with pytest.raises(InvalidRequest, match=r"\(images\.allowed_hosts\)"):
        await fetcher.fetch(f"http://cats.example:{server.port}/redirect?to={target}", "f", None)
    fetcher.close()
    assert server.requests == [f"/redirect?to={target}"]


async def test_call_that_ends_before_the_fetch_gets_deadline_exceeded(server: PictureServer) -> None:
    fetcher = Fetcher(settings(allow_private_addresses=True), NameServer(["127.0.0.1"]))
    with pytest.raises(DeadlineExceeded):
        await fetcher.fetch(f"http://cats.example:{server.port}/slow", "f", time.monotonic() + 0.2)
    fetcher.close()


@pytest.mark.slow
async def test_a_key_with_many_fetches_delays_no_other_key(server: PictureServer) -> None:
    """Requests of one key wait for each other; requests of other keys, or without a key, don't wait for them."""
    fetcher = Fetcher(
        settings(allow_private_addresses=True, max_fetches_per_key=2, max_fetches_per_host=64),
        NameServer(["127.0.0.1"]),
    )

    async def fetch(key: str, path: str) -> None:
        caller = Caller(id=key) if key else ANONYMOUS
        enter_call(Call("sluice.v1.ChatService/Chat", "r", caller=caller))
        await fetcher.fetch(f"http://cats.example:{server.port}{path}", "f", time.monotonic() + GUARD_S)

    slow = [asyncio.create_task(fetch("greedy", "/slow")) for _ in range(6)]
    await until(lambda: server.requests.count("/slow") == 2)
    await asyncio.gather(fetch("other", "/cat.png"), *(fetch("", "/cat.png") for _ in range(4)))
    assert server.requests.count("/slow") == 2
    for each in slow:
        each.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    fetcher.close()


@pytest.mark.slow
async def test_wait_for_a_keys_slot_does_not_count_towards_the_fetch_timeout(server: PictureServer) -> None:
    """A request may have more images than its key has slots: two that use their whole time precede the third."""
    enter_call(Call("sluice.v1.ChatService/Chat", "r", caller=Caller(id="one")))
    time_s = 0.25
    third: object = None
    while not isinstance(third, Media):  # the third may itself need more time than it has, on a slow machine
        time_s *= 2
        fetcher = Fetcher(
            settings(allow_private_addresses=True, max_fetches_per_key=1, max_fetch_s=time_s), NameServer(["127.0.0.1"])
        )
        urls = [f"http://cats.example:{server.port}{path}" for path in ("/slow", "/slow", "/cat.png")]
        *slow, third = await asyncio.gather(*(fetcher.fetch(url, "f", None) for url in urls), return_exceptions=True)
        fetcher.close()
        assert [type(each) for each in slow] == [InvalidRequest, InvalidRequest]
