"""Request smuggling: messages whose end two servers would find at different places."""

from __future__ import annotations

from collections.abc import Callable

from conformance.attacks.target import Target, rejected_reply
from conformance.claim import Claim, claims_into, hold

ATTACKS: list[Claim[Target]] = []
attack = claims_into(ATTACKS)
HIDDEN = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNKED = "Transfer-Encoding: chunked"
LENGTH = f"Content-Length: {len(HIDDEN) + 5}"
FRAMING = "RFC 9112, 6"


def _sent(*lines: str, body: bytes = b"0\r\n\r\n" + HIDDEN) -> Callable[[Target], str]:
    """Return an attack that sends a head with these lines and a body that hides a request."""
    return lambda target: rejected_reply(target.raw(target.head(*lines) + body))


for name, what, lines in (
    ("both", "with a length and chunks", (LENGTH, CHUNKED)),
    ("lengths", "with two different lengths", ("Content-Length: 5", LENGTH)),
    ("list", "with two lengths in one header", (f"Content-Length: 5, {len(HIDDEN) + 5}",)),
    ("plus", "with a sign in its length", ("Content-Length: +5",)),
    ("negative", "of negative length", ("Content-Length: -5",)),
    ("hex", "with a hexadecimal length", ("Content-Length: 0x5",)),
    ("huge", "whose length has 30 digits", ("Content-Length: " + "9" * 30,)),
    ("unknown", "of an unknown transfer coding", ("Transfer-Encoding: xchunked", LENGTH)),
    ("twice", "with chunks coded twice", ("Transfer-Encoding: chunked, chunked",)),
    ("space", "with a space before a header's colon", ("Transfer-Encoding : chunked", LENGTH)),
    ("tab", "whose transfer coding begins with a control character", ("Transfer-Encoding: \x0bchunked", LENGTH)),
    ("fold", "with a folded header line", (LENGTH, "X-A: b", " Transfer-Encoding: chunked")),
    ("null", "with a NUL in a header", ("Content-Length: 5", "X-A: b\0c")),
    ("return", "with a bare carriage return in a header", (LENGTH, "X-A: b\rTransfer-Encoding: chunked")),
):
    attack(f"smuggling.{name}", f"A request {what} is rejected, and none in its body answered", FRAMING)(_sent(*lines))

for name, what, body in (
    ("sign", "has a sign", b"+5\r\nabcde\r\n0\r\n\r\n"),
    ("overflow", "exceeds 64 bits", b"10000000000000005\r\nabcde\r\n0\r\n\r\n"),
    ("underscore", "has an underscore", b"0_5\r\nabcde\r\n0\r\n\r\n"),
    ("feed", "ends with a line feed only", b"5;\nabcde\r\n0\r\n\r\n"),
    ("short", "is too small for its data", b"2\r\nabcde\r\n0\r\n\r\n"),
):
    attack(f"smuggling.chunk_{name}", f"A chunk whose size {what} is rejected", "RFC 9112, 7.1")(
        _sent(CHUNKED, body=body + HIDDEN)
    )


@attack("smuggling.host", "A request without a host is rejected", "RFC 9112, 3.2")
def _(target: Target) -> str:
    return rejected_reply(target.raw(b"GET /v1/models HTTP/1.1\r\n\r\n"))


@attack("smuggling.hosts", "A request with two hosts is rejected, whichever comes first", "RFC 9112, 3.2")
def _(target: Target) -> str:
    hosts = [f"Host: {host}" for host in (f"{target.address[0]}:{target.address[1]}", "attacker.example")]
    heads = ["\r\n".join(["GET /v1/models HTTP/1.1", *lines, "", ""]) for lines in (hosts, hosts[::-1])]
    return ", ".join(rejected_reply(target.raw(each.encode())) for each in heads)


@attack("smuggling.version", "A request of HTTP/0.9 is not answered with data", "RFC 9112, 2.3")
def _(target: Target) -> str:
    reply = target.raw(b"GET /v1/models\r\n\r\n", is_ended=True)
    hold(b'"data"' not in reply.raw, f"the answer is {reply.raw[:80]!r}")
    return str(reply)


@attack("smuggling.trailer", "A trailer cannot set the length or the key of a request", "RFC 9110, 6.5.1")
def _(target: Target) -> str:
    body = b"2\r\n{}\r\n0\r\nContent-Length: 50\r\nAuthorization: Bearer x\r\n\r\n"
    return rejected_reply(target.raw(target.head(CHUNKED) + body))


@attack("smuggling.upgrade", "An upgrade to HTTP/2 in clear text lets no hidden request through", "RFC 9113, 3.1")
def _(target: Target) -> str:
    lines = (
        "Connection: Upgrade, HTTP2-Settings",
        "Upgrade: h2c",
        "HTTP2-Settings: AAMAAABkAAQAAP__",
        "Content-Length: 0",
    )
    reply = target.raw(target.head(*lines, method="GET", path="/v1/models") + HIDDEN.replace(b"GET", b"BAD"))
    hold(b" 101 " not in reply.raw.split(b"\r\n")[0], f"the connection was upgraded: {reply}")
    return str(reply)
