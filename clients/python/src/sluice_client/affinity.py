"""The affinity key of a request, by which load balancers select the replica that caches its prefix.

The key of a conversation is a hash of everything up to its first question, which all its turns begin with. An
`x-sluice-affinity` in the client's metadata replaces it. Keys of different credentials differ, since their cached
prompts are not shared either, and do not reveal the text. The gateway computes the same keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Final

_MAX_LENGTH: Final = 4096  # characters of a text, or tokens, that the key depends on
_USER: Final = 2  # ROLE_USER


def affinity_key(request: Any, authorization: str | None) -> str:
    """Return a request's key: 16 hexadecimal digits, or an empty text for a request without a prefix to cache."""
    digest = hashlib.blake2b((authorization or "").encode(), digest_size=8)
    beginning = list(_beginning(request))
    for text in beginning:
        digest.update(b"\0" + text.encode("utf-8", "surrogatepass"))
    return digest.hexdigest() if beginning else ""


def _beginning(request: Any) -> Iterator[str]:
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
    for message in messages:
        text = "".join(part.text[:_MAX_LENGTH] for part in message.content)
        yield f"{message.role} {text[:_MAX_LENGTH]}"
        if message.role == _USER:
            return
