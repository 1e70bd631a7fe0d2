"""The logprobs of text completions: parallel lists of tokens, and each token's place in the text."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import Any

from sluice.v1.logprobs_pb2 import TokenLogprob

from gateway.dialects.openai_family.token_list import finite


class LogprobWriter:
    """Writes the logprobs of one choice, piece by piece: it knows where in the choice's text the next token begins."""

    def __init__(self) -> None:
        self._offset = 0  # in characters
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(
        self, prompt: Iterable[TokenLogprob], generated: Iterable[TokenLogprob], text: str
    ) -> dict[str, Any] | None:
        """The object for the next tokens; None without any. `text` begins with the prompt's text if it has tokens.

        A token of the prompt that is not in `text`, such as the begin of text that a tokenizer puts before it, has
        the place of the token after it.
        """
        tokens: list[str] = []
        logprobs: list[float | None] = []
        tops: list[dict[str, float] | None] = []
        offsets: list[int] = []
        for i, token in enumerate(prompt):
            self._add(token, tokens, offsets, text)
            logprobs.append(finite(token.logprob) if i else None)  # nothing comes before the first
            tops.append(_to_top(token) if i else None)
        for token in generated:
            self._add(token, tokens, offsets, None)
            logprobs.append(finite(token.logprob))
            tops.append(_to_top(token))
        if not tokens:
            return None
        return {"tokens": tokens, "token_logprobs": logprobs, "top_logprobs": tops, "text_offset": offsets}

    def _add(self, token: TokenLogprob, tokens: list[str], offsets: list[int], text: str | None) -> None:
        tokens.append(_to_name(token))
        offsets.append(self._offset)
        decoded = self._decoder.decode(token.bytes)
        if text is None or text.startswith(decoded, self._offset):
            self._offset += len(decoded)


def _to_top(token: TokenLogprob) -> dict[str, float]:
    """The most likely tokens by name, and the token itself even if it is none of them."""
    return {_to_name(each): finite(each.logprob) for each in (*token.top_logprobs, token)}


def _to_name(token: TokenLogprob) -> str:
    """The text, or for bytes that are none OpenAI's notation of them, which keeps different tokens apart."""
    try:
        return token.bytes.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token.bytes)
