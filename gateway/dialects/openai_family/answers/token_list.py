"""Tokens with their log-probabilities in the JSON of OpenAI's family.

They are written directly as bytes, because a whole answer may have half a million tokens, which would take gigabytes as
objects.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import orjson
from sluice.v1.logprobs_pb2 import TokenLogprob

_MIN_LOGPROB: Final = -9999.0

_Encoding: TypeAlias = tuple[bytes, bytes]  # the text before a token's log-probability, and after it


def to_token_list(logprobs: Iterable[TokenLogprob]) -> orjson.Fragment:
    """Return the tokens of a text with their candidates; an empty list if there are none."""
    encodings: dict[tuple[str, bytes], _Encoding] = {}  # most candidates recur

    def write(token: TokenLogprob) -> bytes:
        text, data = token.token, token.bytes
        encoding = encodings.get((text, data))
        if encoding is None:
            encoding = encodings[text, data] = _encode(text, data)
        return encoding[0] + orjson.dumps(finite(token.logprob)) + encoding[1]

    entries = [b'%b,"top_logprobs":[%b]}' % (write(each), _closed(map(write, each.top_logprobs))) for each in logprobs]
    return orjson.Fragment(b"[%b]" % b",".join(entries))


def finite(logprob: float) -> float:
    """Return a finite logprob: JSON has no infinity, so probability 0 becomes OpenAI's value for unlikely tokens."""
    return max(logprob, _MIN_LOGPROB)


def _encode(text: str, data: bytes) -> _Encoding:
    return b'{"token":%b,"logprob":' % orjson.dumps(text), b',"bytes":%b' % orjson.dumps(list(data))


def _closed(objects: Iterable[bytes]) -> bytes:
    """Return joined objects with the brace that closes the last; empty if there are none."""
    written = b"},".join(objects)
    return written and written + b"}"
