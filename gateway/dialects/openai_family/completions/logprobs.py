"""The logprobs of text completions: parallel lists of tokens, and each token's place in the text."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from typing import Any

from sluice.v1.logprobs_pb2 import TokenLogprob

from gateway.dialects.openai_family.answers.token_list import finite


class LogprobWriter:
    """Writes the logprobs of one choice, piece by piece: it knows where in the choice's text the next token begins."""

    def __init__(self) -> None:
        self._offset = 0  # in characters
        self._ahead = ""  # the text from there on, as far as it was told
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, prompt: Iterable[TokenLogprob], generated: Iterable[TokenLogprob], text: str) -> dict[str, Any]:
        """The object for the next tokens. `text` begins with the prompt's text if it has tokens.

        A token that is not in the text, such as the begin of text that a tokenizer puts before a prompt, or the end of
        text, has the place of the token after it.
        """
        tokens: list[str] = []
        logprobs: list[float | None] = []
        tops: list[dict[str, float] | None] = []
        offsets: list[int] = []
        self._ahead += text
        place = 0  # in what is ahead
        for is_first, token in _in_order(prompt, generated):
            tokens.append(_to_name(token))
            offsets.append(self._offset + place)
            decoded = self._decoder.decode(token.bytes)
            if self._ahead.startswith(decoded, place):
                place += len(decoded)
            logprobs.append(None if is_first else finite(token.logprob))  # nothing comes before a prompt's first
            tops.append(None if is_first else _to_top(token))
        self._offset += place
        self._ahead = self._ahead[place:]
        return {"tokens": tokens, "token_logprobs": logprobs, "top_logprobs": tops, "text_offset": offsets}


def _in_order(prompt: Iterable[TokenLogprob], generated: Iterable[TokenLogprob]) -> Iterator[tuple[bool, TokenLogprob]]:
    """Each token, and whether it is a prompt's first."""
    for place, token in enumerate(prompt):
        yield place == 0, token
    for token in generated:
        yield False, token


def _to_top(token: TokenLogprob) -> dict[str, float]:
    """The most likely tokens by name, and the token itself even if it is none of them."""
    return {_to_name(each): finite(each.logprob) for each in (*token.top_logprobs, token)}


def _to_name(token: TokenLogprob) -> str:
    """The text, or for bytes that are none OpenAI's notation of them, which keeps different tokens apart."""
    try:
        return token.bytes.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token.bytes)
