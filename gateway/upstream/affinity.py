"""The affinity key of a request, by which load balancers send requests with the same prefix to one replica.

A conversation is identified by the beginning that all its turns have in common: everything up to the first user
message, or by the client's `prompt_cache_key` if it sends one. Keys of different credentials differ, because cached
prompts are not shared between credentials, and reveal nothing about the text. The Python client computes the same keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Final

_MAX_LENGTH: Final = 4096  # characters or tokens of a text that are hashed
_USER: Final = 2  # ROLE_USER


def affinity_key(request: Any, authorization: str | None, cache_key: str = "") -> str:
    """Return the key of a request: 16 hexadecimal digits, or an empty string for requests without a reusable prefix."""
    digest = hashlib.blake2b((authorization or "").encode(), digest_size=8)
    beginning = [f"key {cache_key}"] if cache_key else list(_beginning(request))
    for text in beginning:
        digest.update(b"\0" + text.encode("utf-8", "surrogatepass"))
    return digest.hexdigest() if beginning else ""


def _beginning(request: Any) -> Iterator[str]:
    """Yield the texts at a request's beginning, which requests of one conversation share."""
    match request.DESCRIPTOR.name:
        case "ChatRequest":
            yield from _until_question(request.messages)
        case "CreateResponseRequest":
            yield f"1 {request.instructions[:_MAX_LENGTH]}"
            yield from _until_question(item.message for item in request.input)
        case "CompleteRequest" if request.prompts:
            first = request.prompts[0]
            yield first.text[:_MAX_LENGTH] or " ".join(map(str, first.token_ids.ids[:_MAX_LENGTH]))
        case "GenerateTextRequest":
            yield request.text_input[:_MAX_LENGTH]


def _until_question(messages: Any) -> Iterator[str]:
    """Yield messages up to the first one of the user."""
    for message in messages:
        text = "".join(part.text[:_MAX_LENGTH] for part in message.content)
        yield f"{message.role} {text[:_MAX_LENGTH]}"
        if message.role == _USER:
            return
