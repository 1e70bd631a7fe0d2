"""Logprobs of the tokens that make an answer's content, or its prompt.

Owns the queue of tokens whose characters are not all told yet; one object a choice. A token is a content token if at
least one of its characters, or a byte of one, is in the content. It is told with the content that has its last
character, or, where only its first characters are content, as soon as the others are known not to be.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from sluice.v1 import logprobs_pb2

from service.engine import types
from service.engine.tokenizer import Tokenizer
from service.pipeline.token_spans import Span


class ContentLogprobs:
    """Sorts a choice's logprobs into those of content tokens and the others, in order."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._pending: deque[tuple[Span, types.TokenLogprob]] = deque()
        self._content: deque[Span] = deque()  # the told content that pending tokens may have made

    def add_token(self, span: Span, logprob: types.TokenLogprob) -> None:
        """The next token, with the characters it makes."""
        self._pending.append((span, logprob))

    def add_content(self, span: Span) -> None:
        """More characters that are content."""
        self._content.append(span)

    def take(self, num_decided: int) -> list[logprobs_pb2.TokenLogprob]:
        """The content tokens among those whose characters all lie before `num_decided`."""
        taken = []
        while self._pending and self._pending[0][0].end <= num_decided:
            span, logprob = self._pending.popleft()
            while self._content and self._content[0].end <= span.start:
                self._content.popleft()
            if self._content and self._content[0].start < span.end and span.start < span.end:
                taken.append(_to_proto(self._tokenizer, logprob))
        return taken


def prompt_logprobs_of(
    tokenizer: Tokenizer, token_ids: Sequence[int], found: Sequence[types.TokenLogprob]
) -> list[logprobs_pb2.TokenLogprob]:
    """Those of a prompt's tokens. `found` are those of all after the first; without them there are none to tell."""
    if len(found) != len(token_ids) - 1:
        return []
    return [_token(tokenizer, token_ids[0], 0.0), *(_to_proto(tokenizer, logprob) for logprob in found)]


def _to_proto(tokenizer: Tokenizer, logprob: types.TokenLogprob) -> logprobs_pb2.TokenLogprob:
    message = _token(tokenizer, logprob.token_id, logprob.logprob)
    message.top_logprobs.extend(_token(tokenizer, token_id, value) for token_id, value in logprob.top)
    return message


def _token(tokenizer: Tokenizer, token_id: int, logprob: float) -> logprobs_pb2.TokenLogprob:
    data = tokenizer.token_bytes(token_id)
    return logprobs_pb2.TokenLogprob(
        token=data.decode(errors="replace"), token_id=token_id, logprob=logprob, bytes=data
    )
