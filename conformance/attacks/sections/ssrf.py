"""Server-side request forgery: URLs in requests that make a server contact others, or read its files."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conformance.attacks.target import Target, handled, rejected_reply
from conformance.claim import Claim, claims_into, hold, shown

ATTACKS: list[Claim[Target]] = []
attack = claims_into(ATTACKS)
CWE = "CWE-918"
FILE = Path("/etc/passwd")


def unvisited(target: Target, seen: str) -> str:
    """Check that the server has not contacted the canary."""
    visits = target.canary.visits()
    hold(not visits, f"{seen}, and the server sent {shown(visits)} to the URL")
    return seen


def image(url: str) -> list[dict[str, Any]]:
    """Return a user's content with a picture at a URL."""
    return [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": url}}]


def _image_at(host: str, scheme: str = "http") -> Callable[[Target], str]:
    def attempt(target: Target) -> str:
        answer = target.user(image(target.canary.url(host, scheme)))
        return unvisited(target, f"status {answer.status_code}")

    return attempt


for name, what, host, scheme in (
    ("loopback", "at 127.0.0.1", "127.0.0.1", "http"),
    ("localhost", "at localhost", "localhost", "http"),
    ("zero", "at 0.0.0.0", "0.0.0.0", "http"),  # noqa: S104  an address to be attacked
    ("decimal", "at 127.0.0.1 as one number", "2130706433", "http"),
    ("octal", "at 127.0.0.1 in octal", "0177.0.0.1", "http"),
    ("mapped", "at 127.0.0.1 as an IPv6 address", "[::ffff:127.0.0.1]", "http"),
    ("userinfo", "whose URL hides 127.0.0.1 behind a user's name", "example.com@127.0.0.1", "http"),
    ("case", "whose scheme is in capitals", "127.0.0.1", "HTTP"),
    ("ftp", "at an FTP URL", "127.0.0.1", "ftp"),
    ("gopher", "at a gopher URL", "127.0.0.1", "gopher"),
):
    attack(f"ssrf.{name}", f"A picture {what} is not fetched", CWE)(_image_at(host, scheme))


@attack("ssrf.file", "Nothing of the file is shown for a picture at a file URL", "CWE-73")
def _(target: Target) -> str:
    answer = target.user(image(FILE.as_uri()))
    hold("root:" not in answer.text, f"the file's content: {answer.text}")
    return f"status {answer.status_code}"


@attack("ssrf.bytes", "A picture's data URL that holds no picture is rejected", "CWE-20")
def _(target: Target) -> str:
    answer = target.user(image("data:image/png;base64," + base64.b64encode(b"<svg/>" * 100).decode()))
    return handled(answer)


@attack("ssrf.audio", "Audio and files at a URL are not fetched", CWE)
def _(target: Target) -> str:
    url = target.canary.url(path="/sound.wav")
    parts = ({"type": "audio_url", "audio_url": {"url": url}}, {"type": "file", "file": {"file_data": url}})
    return unvisited(target, ", ".join(f"status {target.user([part]).status_code}" for part in parts))


@attack("ssrf.model", "A URL as the model's name is not fetched", CWE)
def _(target: Target) -> str:
    answer = target.chat(model=target.canary.url(path="/model.gguf"))
    return unvisited(target, f"status {answer.status_code}")


@attack("ssrf.schema", "A JSON schema's reference to a URL is not fetched", CWE)
def _(target: Target) -> str:
    schema = {"type": "object", "properties": {"a": {"$ref": target.canary.url(path="/schema.json")}}}
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    return unvisited(target, handled(target.user("Hello", response_format=form)))


@attack("ssrf.proxy", "A request line with another server's URL is not forwarded", "RFC 9112, 3.2.2")
def _(target: Target) -> str:
    reply = target.raw(target.head("Connection: close", method="GET", path=target.canary.url(path="/")))
    hold(b"canary" not in reply.raw, f"the other server's answer: {reply}")
    return unvisited(target, str(reply))


@attack("ssrf.connect", "CONNECT opens no tunnel", "RFC 9110, 9.3.6")
def _(target: Target) -> str:
    authority = f"127.0.0.1:{target.canary.port}"
    lines = f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\n\r\n"
    return unvisited(target, rejected_reply(target.raw(lines.encode())))
