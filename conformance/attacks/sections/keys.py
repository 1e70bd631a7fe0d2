"""API keys: guessing, leaving out and disguising them. Without a valid key given, nothing is tested."""

from __future__ import annotations

from collections.abc import Mapping

import httpx

from conformance.attacks.target import Target
from conformance.attacks.wire.http1 import head
from conformance.claim import Claim, claims_into, hold, shown

ATTACKS: list[Claim[Target]] = []
attack = claims_into(ATTACKS)
CWE = "CWE-287"
DENIED = {400, 401, 403, 404, 429, 431}
GUESSES = 100


def _with(target: Target, headers: Mapping[str, str], path: str = "") -> httpx.Response:
    """Send a chat with these headers instead of the key."""
    target.require_key()
    client = target.rest.client
    request = client.build_request("POST", path or target.rest.path(), json=target.rest.body({"max_tokens": 1}))
    del request.headers["authorization"]
    request.headers.update(headers)
    return client.send(request)


def _denied(answer: httpx.Response, what: str) -> str:
    hold(answer.status_code in DENIED, f"{what}: status {answer.status_code}")
    return str(answer.status_code)


@attack("keys.none", "A request without a key is rejected", CWE)
def _(target: Target) -> str:
    return _denied(_with(target, {}), "no key")


@attack("keys.variants", "Parts and variants of a valid key are rejected", CWE)
def _(target: Target) -> str:
    key = target.require_key()
    values = [
        key[:-1],
        key + "a",
        key[:-1] + chr(ord(key[-1]) ^ 1),
        key.swapcase(),
        key * 2,
        f"{key},{key}",
        "",
        "*",
        "null",
    ]
    return shown(
        sorted({_denied(_with(target, {"authorization": f"Bearer {value}".strip()}), shown(value)) for value in values})
    )


@attack("keys.schemes", "A valid key in another scheme or place is rejected", CWE)
def _(target: Target) -> str:
    key = target.require_key()
    headers = (
        {"authorization": f"Basic {key}"},
        {"cookie": f"authorization=Bearer {key}"},
        {"x-forwarded-authorization": key},
    )
    seen = [_denied(_with(target, each), shown(list(each))) for each in headers]
    seen.append(_denied(_with(target, {}, f"{target.rest.path()}?api_key={key}&key={key}"), "a key in the query"))
    return shown(seen)


@attack("keys.guessing", f"{GUESSES} wrong keys are rejected, and none is repeated", "CWE-307")
def _(target: Target) -> str:
    seen = set()
    for each in range(GUESSES):
        wrong = f"sk-guess-{each:08d}"
        answer = _with(target, {"authorization": f"Bearer {wrong}"})
        seen.add(_denied(answer, wrong))
        hold(wrong not in answer.text, f"the error repeats the key: {answer.text}")
    return shown(sorted(seen))


@attack("keys.paths", "No spelling of a path avoids the key", "CWE-647")
def _(target: Target) -> str:
    target.require_key()
    path = target.rest.path()
    spellings = (
        "/" + path, path + "/", path.upper(), "/healthz/.." + path, "/%76" + path[2:], path + "%00", path + ";a=b",
        path + "?/healthz", path + "#/healthz", "/docs/../.." + path, path.replace("/", "\\"),
    )  # fmt: skip
    for each in spellings:
        request = head(
            "POST", each, target.address, "Content-Type: application/json", "Content-Length: 2", "Connection: close"
        )
        reply = target.raw(request + b"{}")
        hold(all(status != 200 and status < 500 for status in reply.statuses), f"{each}: {reply}")
    return f"{len(spellings)} spellings were rejected"


@attack("keys.headers", "A key of 60 kB, with bytes beyond ASCII, or twice causes no server error", "CWE-20")
def _(target: Target) -> str:
    key = target.require_key()
    values = (["Bearer " + "a" * 60_000], ["Bearer \xff\xfe"], [f"Bearer {key}", "Bearer wrong"], ["Bearer"], ["\t"])
    seen = []
    for each in values:
        lines = [f"Authorization: {value}" for value in each]
        reply = target.raw(head("POST", target.rest.path(), target.address, *lines, "Content-Length: 2") + b"{}")
        hold(all(status in DENIED for status in reply.statuses), f"{len(each)} headers: {reply}")
        seen.append(str(reply.statuses))
    return ", ".join(seen)


@attack("keys.first", "An invalid body without a key is rejected for the key", "CWE-204")
def _(target: Target) -> str:
    target.require_key()
    request = head("POST", target.rest.path(), target.address, "Content-Type: application/json", "Content-Length: 1")
    reply = target.raw(request + b"{")
    hold(not reply.statuses or reply.statuses[0] in {401, 403}, str(reply))
    return str(reply)
