"""The logprobs of text completions: parallel lists of tokens, and each token's offset in the text."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from typing import Any

from sluice.v1.logprobs_pb2 import TokenLogprob

from gateway.dialects.openai_family.answers.token_list import finite


class LogprobWriter:
    """Writes the logprobs of one choice, piece by piece, and keeps the offset of the next token."""

    def __init__(self) -> None:
        self._offset = 0  # in characters
        self._ahead = ""  # the received text after the offset
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, prompt: Iterable[TokenLogprob], generated: Iterable[TokenLogprob], text: str) -> dict[str, Any]:
        """Return the object for the next tokens. `text` begins with the prompt's text if it has tokens.

        A token that is not in the text, such as begin-of-text before a prompt, or end-of-text, has the offset of the
        token after it.
        """
        tokens: list[str] = []
        logprobs: list[float | None] = []
        tops: list[dict[str, float] | None] = []
        offsets: list[int] = []
        self._ahead += text
        offset = 0  # offset in the received text
        for is_first, token in _in_order(prompt, generated):
            tokens.append(_to_name(token))
            offsets.append(self._offset + offset)
            decoded = self._decoder.decode(token.bytes)
            if self._ahead.startswith(decoded, offset):
                offset += len(decoded)
            logprobs.append(None if is_first else finite(token.logprob))  # a prompt's first token has no logprob
            tops.append(None if is_first else _to_top(token))
        self._offset += offset
        self._ahead = self._ahead[offset:]
        return {"tokens": tokens, "token_logprobs": logprobs, "top_logprobs": tops, "text_offset": offsets}


def _in_order(prompt: Iterable[TokenLogprob], generated: Iterable[TokenLogprob]) -> Iterator[tuple[bool, TokenLogprob]]:
    """Yield each token, and whether it is the first token of a prompt."""
    for offset, token in enumerate(prompt):
        yield offset == 0, token
    for token in generated:
        yield False, token


def _to_top(token: TokenLogprob) -> dict[str, float]:
    """Return the most likely tokens by name, including the token itself even if it is not one of them."""
    return {_to_name(each): finite(each.logprob) for each in (*token.top_logprobs, token)}


def _to_name(token: TokenLogprob) -> str:
    """Return the text, or OpenAI's notation for bytes that are not valid UTF-8, which keeps such tokens distinct."""
    try:
        return token.bytes.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token.bytes)
