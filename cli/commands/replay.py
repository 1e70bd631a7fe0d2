"""`sluice replay`: verify a receipt, and compute its answer again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from cli.calls.options import DEFAULT, CaFile, Key, Url, connected, fail, print_text
from cli.calls.server import Server
from service.receipts.verification import InvalidReceipt, differences, verify

_JWS: Final = r"[\w-]+\.[\w-]+\.[\w-]+"
_FIELD: Final = re.compile(rf'"receipt"\s*:\s*"({_JWS})"', re.ASCII)
_PLAIN: Final = re.compile(rf"\s*({_JWS})\s*", re.ASCII)
_STORED: Final = "resp_"  # the ids of stored responses begin with it
_NEITHER: Final = ("store", "background")  # effects of a request that a replay doesn't repeat


def replay(
    record: Annotated[str, typer.Argument(help="File with a receipt or an answer, or the id of a stored response.")],
    request: Annotated[Path | None, typer.Argument(help="File with the request's JSON body.")] = None,
    path: Annotated[str, typer.Option(help="The path of the request, one that streams.")] = "/v1/chat/completions",
    keys: Annotated[
        Path | None, typer.Option(help="File with the trusted public keys, a JSON Web Key Set; default: the server's.")
    ] = None,
    header: Annotated[list[str], typer.Option(help="Header NAME:VALUE that the request needs; repeatable.")] = [],
    verify_only: Annotated[
        bool, typer.Option("--verify-only", help="Check the signature, and that REQUEST is the receipt's; no more.")
    ] = False,
    url: Url = DEFAULT,
    key: Key = "",
    ca_file: CaFile = "",
) -> None:
    """Verify a receipt, and compute its answer again.

    The receipt in RECORD is compared with that of a new answer to REQUEST. Of a stored response the server has the
    request, and REQUEST can be left out; otherwise only the signature is verified then. The exit code is 0 if the
    answers are equal, else 1.
    """
    body = None if request is None else _json_in(request)
    with connected(url, key, ca_file) as server:
        is_stored = record.startswith(_STORED)
        text = json.dumps(server.get(f"/v1/responses/{record}")) if is_stored else _text_in(Path(record))
        receipt = _receipt_in(text, record)
        trusted = (server.get("/v1/receipt_keys") if keys is None else _json_in(keys)).get("keys", [])
        claims = _verified(receipt, trusted, record)
        if body is not None:
            headers = dict(map(_header, header)) | _resume_header(claims)
            again = _again(server, path, body, headers, verify_only=verify_only)
        elif is_stored and not verify_only:
            again = server.post(f"/v1/responses/{record}/replay", {})["receipt"]
        else:
            print_text(f"the receipt is valid: {_summary(claims)}")
            return
        if verify_only:
            print_text(f"the receipt is valid, and the request is its request: {_summary(claims)}")
            return
        found = list(differences(claims, _verified(again, trusted, path)))
    if found:
        fail("the answers differ: " + "; ".join(found))
    print_text(f"the answers are equal: {_summary(claims)}")


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        fail(f"--header {text!r} is not NAME:VALUE")
    return name.strip().lower(), value.strip()


def _resume_header(claims: Mapping[str, Any]) -> dict[str, str]:
    """Return the header that resumes the stream of a receipt at its beginning.

    The server rejects it unless model, seed and request are the same.
    """
    return {"last-event-id": f"{claims['resume']['stream']}.0.0.{claims['resume']['position']}"}


def _again(server: Server, path: str, body: Mapping[str, Any], headers: Mapping[str, str], *, verify_only: bool) -> str:
    """Return the receipt of the answer that is computed again; empty with `verify_only`. Raise ServerError."""
    changed = {**body, **{name: False for name in _NEITHER if name in body}}
    receipt = ""
    with server.stream(path, changed, headers) as events:
        for event in events:
            if verify_only:
                return ""
            if found := _FIELD.search(json.dumps(event)):
                receipt = found[1]
    return receipt


def _verified(receipt: str, keys: list[dict[str, Any]], source: str) -> dict[str, Any]:
    try:
        return verify(receipt, keys)
    except InvalidReceipt as error:
        fail(f"{source}: the receipt is invalid: {error}")


def _receipt_in(text: str, source: str) -> str:
    """Return the last receipt in a text."""
    if found := _PLAIN.fullmatch(text):
        return found[1]
    receipts = _FIELD.findall(text)
    if not receipts:
        fail(f"{source}: contains no receipt")
    return str(receipts[-1])


def _json_in(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(_text_in(file))
    except ValueError:
        value = None
    if not isinstance(value, dict):
        fail(f"{file}: is not a JSON object")
    return value


def _text_in(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{file}: {getattr(error, 'strerror', None) or 'is not UTF-8'}")


def _summary(claims: Mapping[str, Any]) -> str:
    tokens = claims["tokens"]
    num_tokens = sum(choice["num_tokens"] for choice in tokens)
    return f"model {claims.get('model')}, {len(tokens)} choices, {num_tokens} tokens, seed {claims.get('seed')}"
