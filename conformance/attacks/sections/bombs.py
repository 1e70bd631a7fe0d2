"""Bodies that are small to send and large to read."""

from __future__ import annotations

import base64
import gzip
import struct
import zlib
from collections.abc import Callable, Iterator

import httpx

from conformance.attacks.sections.ssrf import image
from conformance.attacks.target import JSON, Target, handled, rejected, rejected_reply
from conformance.claim import Claim, claims_into

ATTACKS: list[Claim[Target]] = []
attack = claims_into(ATTACKS)
CWE = "CWE-409"
MIB = 2**20
START, END = b'{"model": "a", "messages": [{"role": "user", "content": "', b'"}]}'
BOMB_MIB, HEAVY_BOMB_MIB = 64, 1024


def zeros(size_mib: int, *, wbits: int = 31) -> bytes:
    """Return a compressed body of that many MiB, in gzip's form or, by `wbits`, another of zlib's."""
    squeezer = zlib.compressobj(9, wbits=wbits)
    pieces = [
        squeezer.compress(START),
        *(squeezer.compress(b"0" * MIB) for _ in range(size_mib)),
        squeezer.compress(END),
    ]
    return b"".join([*pieces, squeezer.flush()])


def compressed(target: Target, content: bytes, coding: str) -> httpx.Response | None:
    """Send a compressed body."""
    return target.send(content, JSON | {"content-encoding": coding})


@attack("bombs.gzip", f"A body that unpacks to {BOMB_MIB} MiB by gzip is rejected", CWE)
def _(target: Target) -> str:
    return rejected(compressed(target, zeros(BOMB_MIB), "gzip"))


@attack("bombs.deflate", f"A body that unpacks to {BOMB_MIB} MiB by deflate is rejected", CWE)
def _(target: Target) -> str:
    return rejected(compressed(target, zeros(BOMB_MIB, wbits=15), "deflate"))


@attack("bombs.nested", "A body that is compressed twice is rejected", CWE)
def _(target: Target) -> str:
    return rejected(compressed(target, gzip.compress(zeros(BOMB_MIB)), "gzip, gzip"))


@attack("bombs.large", f"A body that unpacks to {HEAVY_BOMB_MIB} MiB by gzip is rejected", CWE)
def _(target: Target) -> str:
    target.require_heavy()
    return rejected(compressed(target, zeros(HEAVY_BOMB_MIB), "gzip"))


@attack("bombs.coding", "A body of an unknown content coding is rejected", "RFC 9110, 8.4")
def _(target: Target) -> str:
    return rejected(compressed(target, b"\0\1\2", "sluice-unknown"))


@attack("bombs.length", "A body that is announced with 1 TiB is rejected before it is sent", "CWE-770")
def _(target: Target) -> str:
    return rejected_reply(target.raw(target.head(f"Content-Length: {2**40}") + b"{", is_ended=True))


@attack("bombs.stream", "A body of 512 MiB in chunks is rejected before its end", "CWE-770")
def _(target: Target) -> str:
    target.require_heavy()

    def pieces() -> Iterator[bytes]:
        yield START
        for _ in range(512):
            yield b"0" * MIB
        yield END

    return rejected(target.send(pieces()))


@attack("bombs.extensions", "A chunk with extensions of 4 MiB is rejected", "RFC 9112, 7.1.1")
def _(target: Target) -> str:
    extensions = b"2;" + b"a" * (4 * MIB) + b"\r\n{}\r\n0\r\n\r\n"
    return rejected_reply(target.raw(target.head("Transfer-Encoding: chunked") + extensions))


@attack("bombs.chunks", "A body of 50,000 chunks of one byte is handled", "CWE-770")
def _(target: Target) -> str:
    reply = target.raw(
        target.head("Transfer-Encoding: chunked", "Connection: close") + b"1\r\n{\r\n" * 50_000 + b"0\r\n\r\n"
    )
    return rejected_reply(reply)


def _png(width: int, height: int) -> str:
    """Return the data URL of a black PNG."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    squeezer = zlib.compressobj(9)
    rows = b"".join(squeezer.compress(bytes(width // 8 + 1)) for _ in range(height)) + squeezer.flush()
    content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(content).decode()


def _picture(width: int, height: int) -> Callable[[Target], str]:
    return lambda target: handled(target.user(image(_png(width, height))))


attack("bombs.picture", "A picture of a few kB and 400 million pixels takes no memory", CWE)(_picture(20_000, 20_000))
attack("bombs.strip", "A picture of one row and a million columns causes no server error", CWE)(_picture(1_000_000, 1))
