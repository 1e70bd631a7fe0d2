"""Logprobs of the tokens that make an answer's content, or its prompt.

A token is a content token if at least one of its characters, or a byte of one, is in the content. It is told with the
content that has its last character, or, where only its first characters are content, as soon as the others are known
not to be.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from service.engine.tokenizer import Tokenizer
from service.generation.events import SpelledLogprob
from service.generation.output import TokenLogprob
from service.output.token_ranges import TextRange


class ContentLogprobs:
    """Sorts a choice's logprobs into those of content tokens and the others, in order."""

    def __init__(self, tokenizer: Tokenizer, *, every: bool = False) -> None:
        """`every` tells tokens that make no text, too."""
        self._tokenizer = tokenizer
        self._every = every
        self._pending: deque[tuple[TextRange, TokenLogprob]] = deque()
        self._content: deque[TextRange] = deque()  # the told content that pending tokens may have made

    def add_token(self, characters: TextRange, logprob: TokenLogprob) -> None:
        """The next token, with the characters it makes."""
        self._pending.append((characters, logprob))

    def add_content(self, characters: TextRange) -> None:
        """More characters that are content."""
        self._content.append(characters)

    def take(self, num_decided: int) -> list[SpelledLogprob]:
        """The content tokens among those whose characters all lie before `num_decided`."""
        taken = []
        while self._pending and self._pending[0][0].end <= num_decided:
            (start, end), logprob = self._pending.popleft()
            while self._content and self._content[0].end <= start:
                self._content.popleft()
            is_content = bool(self._content) and self._content[0].start < end
            if is_content if start < end else self._every:
                taken.append(_spelled(self._tokenizer, logprob))
        return taken


def spelled_prompt_logprobs(
    tokenizer: Tokenizer, token_ids: Sequence[int], found: Sequence[TokenLogprob]
) -> list[SpelledLogprob]:
    """Those of a prompt's tokens. `found` are those of all after the first; without them there are none to tell."""
    if len(found) != len(token_ids) - 1:
        return []
    first = SpelledLogprob(token_ids[0], tokenizer.token_bytes(token_ids[0]), 0.0)
    return [first, *(_spelled(tokenizer, logprob) for logprob in found)]


def _spelled(tokenizer: Tokenizer, logprob: TokenLogprob) -> SpelledLogprob:
    top = tuple(SpelledLogprob(token_id, tokenizer.token_bytes(token_id), value) for token_id, value in logprob.top)
    return SpelledLogprob(logprob.token_id, tokenizer.token_bytes(logprob.token_id), logprob.logprob, top)
