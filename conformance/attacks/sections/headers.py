"""Hostile heads: huge ones, those that other users' browsers send, and those that would split an answer."""

from __future__ import annotations

from conformance.attacks.target import JSON, Target, handled, rejected_reply
from conformance.attacks.wire.http1 import Reply, head
from conformance.claim import Claim, InapplicableError, claims_into, cut, hold

ATTACKS: list[Claim[Target]] = []
attack = claims_into(ATTACKS)
EVIL = "attacker.example"
CWE = "CWE-770"


def _keyless(target: Target) -> None:
    if target.key:
        raise InapplicableError("a web page has no key")


def _safe(reply: Reply) -> str:
    """Check that no answer is a server's error."""
    hold(all(status < 500 or status in {501, 505} for status in reply.statuses), str(reply))
    return str(reply)


@attack("headers.huge", "A header of 1 MiB is rejected", "RFC 6585, 5")
def _(target: Target) -> str:
    return rejected_reply(target.raw(target.head("X-A: " + "b" * 2**20, method="GET", path="/v1/models")))


@attack("headers.many", "A request with 10,000 headers is rejected", "RFC 6585, 5")
def _(target: Target) -> str:
    lines = [f"X-{each}: a" for each in range(10_000)]
    return rejected_reply(target.raw(target.head(*lines, method="GET", path="/v1/models")))


@attack("headers.endless", "A header line that never ends is rejected within 8 MiB", CWE)
def _(target: Target) -> str:
    start = target.head(method="GET", path="/v1/models")[:-2] + b"X-A: "
    return rejected_reply(target.raw([start, *([b"b" * 65536] * 128)]))


@attack("headers.path", "A path of 1 MiB is rejected", "RFC 9110, 15.5.15")
def _(target: Target) -> str:
    return rejected_reply(target.raw(target.head(method="GET", path="/v1/models?a=" + "b" * 2**20)))


@attack("headers.method", "Methods that nobody knows are rejected", "RFC 9110, 9")
def _(target: Target) -> str:
    methods = ("A" * 65536, "TRACE", "BREW", "get")
    return ", ".join(rejected_reply(target.raw(target.head("Content-Length: 0", method=each))) for each in methods)


@attack("headers.split", "Line breaks in a path or a query reach no header of the answer", "CWE-113")
def _(target: Target) -> str:
    for path in ("/%0d%0aX-Injected:%20a", "/v1/models?a=%0d%0aX-Injected:%20a", "/v1/models/%0d%0aX-Injected:a"):
        answer = target.rest.client.get(path)
        hold("x-injected" not in answer.headers, f"{path} set a header")
        handled(answer)
    return "no header was set"


@attack("headers.request_id", "A request id of 16 kB or with markup is not repeated in a body", "CWE-79")
def _(target: Target) -> str:
    for value in ("a" * 16_000, "<script>alert(1)</script>"):
        answer = target.send(b"{}", JSON | {"x-request-id": value})
        handled(answer)
        hold(answer is None or value not in answer.text, "the request id is repeated")
    return "not repeated"


@attack("headers.bytes", "Headers with bytes beyond ASCII cause no server error", "RFC 9110, 5.5")
def _(target: Target) -> str:
    lines = ("X-Request-Id: \xff\xfe\x80", "Authorization: Bearer \xe9\xff", "Accept-Language: \xc3\x28")
    return ", ".join(_safe(target.raw(target.head(each, method="GET", path="/v1/models"))) for each in lines)


@attack("headers.malformed", "Malformed standard headers cause no server error", "CWE-20")
def _(target: Target) -> str:
    lines = (
        "Accept: \x7f;q=a", "Accept-Encoding: *;q=-1", "Range: bytes=5-1", 'If-None-Match: "', "Cookie: ;=;=",
        "Traceparent: 00-zz-zz-01", "Baggage: =,=,", 'Content-Type: application/json; charset="', "Prefer: wait=-1",
        'Forwarded: for="', "X-Forwarded-For: a, , b", "Expect: 200-maybe", "Content-Length: 0, 0", "TE: trailers;q=x",
    )  # fmt: skip
    for line in lines:
        _safe(target.raw(target.head(line, method="GET", path="/v1/models")))
    return f"{len(lines)} headers were handled"


@attack("headers.rebinding", "Without keys, a request for another host's name is rejected", "CWE-350")
def _(target: Target) -> str:
    _keyless(target)
    request = head("GET", "/v1/models", (EVIL, target.address[1]), "Connection: close")
    return rejected_reply(target.raw(request))


@attack("headers.cors", "Without keys, a foreign web page may not read answers", "CWE-942")
def _(target: Target) -> str:
    _keyless(target)
    answer = target.rest.client.get("/v1/models", headers={"origin": f"https://{EVIL}"})
    allowed = answer.headers.get("access-control-allow-origin", "")
    hold(answer.status_code >= 400 or allowed not in {"*", f"https://{EVIL}"}, f"access is allowed to {allowed!r}")
    return f"status {answer.status_code}, allowed origin {allowed!r}"


@attack("headers.preflight", "Without keys, a foreign web page may not send JSON", "CWE-942")
def _(target: Target) -> str:
    _keyless(target)
    asked = {
        "origin": f"https://{EVIL}",
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type",
    }
    answer = target.rest.client.options(target.rest.path(), headers=asked)
    allowed = answer.headers.get("access-control-allow-origin", "")
    hold(allowed not in {"*", f"https://{EVIL}"}, f"sending is allowed to {allowed!r}")
    return f"status {answer.status_code}, allowed origin {allowed!r}"


@attack("headers.credentials", "No foreign origin may use a browser's credentials", "CWE-942")
def _(target: Target) -> str:
    for origin in (f"https://{EVIL}", "null", "http://localhost.attacker.example"):
        answer = target.rest.client.get("/v1/models", headers={"origin": origin})
        headers = answer.headers
        is_allowed = headers.get("access-control-allow-origin") == origin
        hold(
            not is_allowed or headers.get("access-control-allow-credentials") != "true",
            f"{origin} may send credentials: {cut(str(dict(headers)))}",
        )
    return "no origin may"


@attack("headers.override", "A header cannot replace the method or the path", "CWE-436")
def _(target: Target) -> str:
    lines = {
        "x-http-method-override": "DELETE",
        "x-original-url": "/admin",
        "x-rewrite-url": "/admin",
        "x-method": "PUT",
    }
    answer = target.rest.client.get("/v1/models", headers=lines)
    hold(answer.status_code == 200, f"status {answer.status_code}")
    return "the request stayed the same"


@attack("headers.hop", "A header named by `Connection` reaches nobody and harms nothing", "RFC 9110, 7.6.1")
def _(target: Target) -> str:
    lines = ("Connection: close, content-length, content-type, host", "Content-Length: 2")
    return _safe(target.raw(target.head(*lines) + b"{}"))
