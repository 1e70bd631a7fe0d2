"""Logprobs of the tokens of an answer's content, or of its prompt.

A token is a content token if at least one of its characters, or a byte of one, is in the content. It is returned with
the content that has its last character, or as soon as its later characters are known not to be content.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from service.engine.tokens.tokenizer import Tokenizer
from service.generation.outputs.events import DecodedLogprob
from service.generation.outputs.output import TokenLogprob
from service.output.tokens.token_ranges import TextRange


class ContentLogprobs:
    """Selects the logprobs of a choice's content tokens, in order."""

    def __init__(self, tokenizer: Tokenizer, *, every: bool = False) -> None:
        """`every` selects tokens without text, too."""
        self._tokenizer = tokenizer
        self._every = every
        self._pending: deque[tuple[TextRange, TokenLogprob]] = deque()
        self._content: deque[TextRange] = deque()  # content that pending tokens may have produced

    def add_token(self, characters: TextRange, logprob: TokenLogprob) -> None:
        """Add the next token, with the characters that it produces."""
        self._pending.append((characters, logprob))

    def add_content(self, characters: TextRange) -> None:
        """Add characters that are content."""
        self._content.append(characters)

    def take(self, num_decided: int) -> list[DecodedLogprob]:
        """Return the content tokens whose characters all lie before `num_decided`."""
        taken = []
        while self._pending and self._pending[0][0].end <= num_decided:
            (start, end), logprob = self._pending.popleft()
            while self._content and self._content[0].end <= start:
                self._content.popleft()
            is_content = bool(self._content) and self._content[0].start < end
            if is_content if start < end else self._every:
                taken.append(_decoded(self._tokenizer, logprob))
        return taken


def decode_prompt_logprobs(
    tokenizer: Tokenizer, token_ids: Sequence[int], found: Sequence[TokenLogprob]
) -> list[DecodedLogprob]:
    """Return the logprobs of a prompt's tokens; none unless `found` has those of all tokens after the first."""
    if len(found) != len(token_ids) - 1:
        return []
    first = DecodedLogprob(token_ids[0], tokenizer.token_bytes(token_ids[0]), 0.0)
    return [first, *(_decoded(tokenizer, logprob) for logprob in found)]


def _decoded(tokenizer: Tokenizer, logprob: TokenLogprob) -> DecodedLogprob:
    """Return a token's log probability with its bytes, and those of its alternatives."""
    listed = dict(logprob.top).items()  # a requested token may also be one of the most likely
    top = tuple(DecodedLogprob(token_id, tokenizer.token_bytes(token_id), value) for token_id, value in listed)
    return DecodedLogprob(logprob.token_id, tokenizer.token_bytes(logprob.token_id), logprob.logprob, top)
