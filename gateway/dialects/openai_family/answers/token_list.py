"""Tokens with their log-probabilities in the JSON of OpenAI's family.

Written as bytes at once: of a whole answer there may be half a million, and as objects they would take gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import orjson
from sluice.v1.logprobs_pb2 import TokenLogprob

_MIN_LOGPROB: Final = -9999.0

_Spelling: TypeAlias = tuple[bytes, bytes]  # of a token: what stands before its log-probability, and after it


def to_token_list(logprobs: Iterable[TokenLogprob]) -> orjson.Fragment:
    """The tokens of a text with their candidates; an empty list without any."""
    spellings: dict[tuple[str, bytes], _Spelling] = {}  # most candidates come again and again

    def write(token: TokenLogprob) -> bytes:
        text, data = token.token, token.bytes
        spelling = spellings.get((text, data))
        if spelling is None:
            spelling = spellings[text, data] = _spell(text, data)
        return spelling[0] + orjson.dumps(finite(token.logprob)) + spelling[1]

    entries = [b'%b,"top_logprobs":[%b]}' % (write(each), _closed(map(write, each.top_logprobs))) for each in logprobs]
    return orjson.Fragment(b"[%b]" % b",".join(entries))


def finite(logprob: float) -> float:
    """JSON has no infinity: a token of probability 0 gets the number that OpenAI sends for the most unlikely ones."""
    return max(logprob, _MIN_LOGPROB)


def _spell(text: str, data: bytes) -> _Spelling:
    return b'{"token":%b,"logprob":' % orjson.dumps(text), b',"bytes":%b' % orjson.dumps(list(data))


def _closed(objects: Iterable[bytes]) -> bytes:
    written = b"},".join(objects)
    return written and written + b"}"
