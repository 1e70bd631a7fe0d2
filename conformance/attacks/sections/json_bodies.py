"""Hostile JSON: deep, wide, huge, ambiguous or no JSON at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from conformance.attacks.target import JSON, Target, handled, rejected
from conformance.claim import Claim, claims_into

ATTACKS: list[Claim[Target]] = []
attack = claims_into(ATTACKS)
CWE = "CWE-20"


def _body(target: Target, extra: bytes, content: bytes = b'"Hello"') -> bytes:
    """Return a chat's body with the bytes of a content and of further fields."""
    model = json.dumps(target.rest.model).encode()
    messages = b'[{"role": "user", "content": ' + content + b"}]"
    return b'{"model": ' + model + b', "max_tokens": 2, "messages": ' + messages + extra + b"}"


def _sent(extra: bytes = b"", content: bytes = b'"Hello"', *, is_rejected: bool = False) -> Callable[[Target], str]:
    judge = rejected if is_rejected else handled
    return lambda target: judge(target.send(_body(target, extra, content)))


DEEP = 100_000
for name, text, extra in (
    ("arrays", f"{DEEP:,} nested arrays in a field", b', "metadata": ' + b"[" * DEEP + b"]" * DEEP),
    ("objects", f"{DEEP:,} nested objects in a field", b', "metadata": ' + b'{"a":' * DEEP + b"1" + b"}" * DEEP),
    ("wide", "100,000 unknown fields", b"".join(b', "x%d": 1' % each for each in range(100_000))),
    ("repeated", "a field that is repeated 100,000 times", b', "temperature": 1' * 100_000),
    ("digits", "an integer of 100,000 digits", b', "seed": ' + b"9" * 100_000),
    ("exponent", "a number beyond any float", b', "temperature": 1e400'),
    ("fraction", "a fraction of 100,000 digits", b', "temperature": 0.' + b"1" * 100_000),
    ("nan", "NaN, which is no JSON", b', "temperature": NaN'),
    ("infinity", "Infinity, which is no JSON", b', "temperature": -Infinity'),
    (
        "prototype",
        "fields that name a language's internals",
        b', "__proto__": {"n": 2}, "__class__": "a", "constructor": {}',
    ),
):
    attack(f"json.{name}", f"A body with {text} causes no server error", CWE)(_sent(extra))

for name, text, content in (
    ("surrogate", "half of a surrogate pair", b'"\\ud800"'),
    ("nul", "NUL characters", b'"a\\u0000b\\u0000"'),
    ("deep_content", "10,000 nested lists of parts", b"[" * 10_000 + b"]" * 10_000),
    ("escapes", "100,000 escaped characters", b'"' + b"\\u0041" * 100_000 + b'"'),
):
    attack(f"json.{name}", f"A content with {text} causes no server error", CWE)(_sent(content=content))


@attack("json.utf8", "A body that isn't UTF-8 is rejected", "RFC 8259, 8.1")
def _(target: Target) -> str:
    contents = (b'"\xff\xfe"', b'"\xc0\xaf"', b'"\xed\xa0\x80"')  # no character, overlong, a surrogate
    return ", ".join(rejected(target.send(_body(target, b"", content))) for content in contents)


@attack("json.utf16", "A body in UTF-16 or with a byte order mark causes no server error", "RFC 8259, 8.1")
def _(target: Target) -> str:
    text = _body(target, b"").decode()
    return ", ".join(handled(target.send(text.encode(coding))) for coding in ("utf-16", "utf-32", "utf-8-sig"))


@attack("json.types", "Values of every wrong type in every usual field cause no server error", CWE)
def _(target: Target) -> str:
    names = (
        "model",
        "messages",
        "max_tokens",
        "temperature",
        "stop",
        "tools",
        "response_format",
        "stream",
        "logit_bias",
    )
    values: tuple[Any, ...] = ([], {}, "a", -1, True, [None], [{}])
    for name in names:
        for value in values:
            handled(target.chat(**{name: value}))
    return f"{len(names) * len(values)} bodies were handled"


@attack("json.values", "A body that is a number, a string, a list or nothing is rejected", CWE)
def _(target: Target) -> str:
    return ", ".join(rejected(target.send(each)) for each in (b"1", b'"a"', b"[]", b"null", b"", b"{}"))


@attack("json.truncated", "A body that ends anywhere is rejected", CWE)
def _(target: Target) -> str:
    whole = _body(target, b', "stream": true')
    cuts = range(1, len(whole), len(whole) // 12)
    return ", ".join(sorted({rejected(target.send(whole[:cut])) for cut in cuts}))


@attack("json.messages", "A chat of 50,000 messages causes no server error", "CWE-770")
def _(target: Target) -> str:
    return handled(target.chat(messages=[{"role": "user", "content": "a"}] * 50_000))


@attack("json.type", "A body that is no JSON by its content type, as a web page can send it, is rejected", "CWE-352")
def _(target: Target) -> str:
    if target.key:
        return "a web page has no key"
    kinds = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a")
    page = JSON | {"origin": "https://attacker.example"}
    return ", ".join(rejected(target.send(_body(target, b""), page | {"content-type": kind})) for kind in kinds)
