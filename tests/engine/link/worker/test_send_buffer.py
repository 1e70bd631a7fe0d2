"""SendBuffer: complete messages in order, and no wait for a slow reader."""

from __future__ import annotations

import socket
import threading

import pytest

from service.engine.link.worker import wire
from service.engine.link.worker.send_buffer import SendBuffer


def test_messages_arrive_in_order_after_a_pause_of_the_reader() -> None:
    """More data than a socket holds is accepted immediately, and all of it is received later."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        send_buffer = SendBuffer(theirs)
        messages = [(index, b"x" * 10_000) for index in range(200)]
        for message in messages:
            send_buffer.put(message)
        received = []
        for message in wire.receive(ours, wire.Unpacker()):
            received.append(message)
            if len(received) == len(messages):
                break
        send_buffer.close()
    assert received == messages


def test_threads_do_not_mix_their_messages() -> None:
    """Each message is complete, and each thread's messages are in order."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        send_buffer = SendBuffer(theirs)

        def send(name: int) -> None:
            for index in range(100):
                send_buffer.put((name, index, "y" * 3000))

        threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        received: list[tuple[int, int, str]] = []
        for message in wire.receive(ours, wire.Unpacker()):
            received.append(message)
            if len(received) == 400:
                break
        for thread in threads:
            thread.join()
        send_buffer.close()
    for name in range(4):
        assert [index for each, index, _ in received if each == name] == list(range(100))


def test_parent_that_has_ended_blocks_no_sender() -> None:
    """Messages to a parent that has ended are lost."""
    ours, theirs = socket.socketpair()
    send_buffer = SendBuffer(theirs)
    ours.close()
    for _ in range(100):
        send_buffer.put(b"x" * 100_000)
    send_buffer.close()
    theirs.close()


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_unpacker_finds_the_messages_in_any_pieces(size: int) -> None:
    """Bytes in pieces of any size yield the same messages. An unreadable one is reported with its serial."""
    data = wire.pack("first") + wire.pack({"second": 2}, 7) + wire.pack(b"3" * 100)
    broken = bytearray(wire.pack("broken", 9))
    broken[16:] = b"\xff" * (len(broken) - 16)
    data += bytes(broken) + wire.pack("last")
    unpacker = wire.Unpacker()
    found = [each for start in range(0, len(data), size) for each in unpacker.feed(data[start : start + size])]
    assert [*found[:3], found[4]] == ["first", {"second": 2}, b"3" * 100, "last"]
    assert isinstance(found[3], wire.Unreadable)
    assert found[3].serial == 9
