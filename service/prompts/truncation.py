"""Truncate or reject prompts that are longer than the model's context.

What is left out of them, where the request asks for that, is chosen by trying: called on worker threads, since that may
take long.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol, TypeVar

from service.engine.tokenizer import Tokenizer
from service.generation.conversation import Message, Role, TextPart
from service.generation.errors import PromptTooLong
from service.prompts.control_tokens import ControlTokens

_MAX_TRIALS = 8  # of a text that is cut by tokens: what is left may have a few more when it is read anew


class Rendered(Protocol):
    """A prompt as the model gets it."""

    @property
    def token_ids(self) -> Sequence[int]: ...


_Prompt = TypeVar("_Prompt", bound=Rendered)


@dataclass(frozen=True, slots=True)
class PromptBudget:
    """How many tokens a prompt may have, in a context of `max_model_len` tokens.

    A prompt that leaves budget for one token of the answer is taken whole. A longer one is refused, or, where the request
    `truncates`, cut until there is budget for `max_tokens`, but not to less than half the context; None asks for no more
    than one. `bytes_per_token` is the most that a token may stand for, if that is known.
    """

    max_model_len: int
    max_tokens: int | None
    truncates: bool
    bytes_per_token: int | None = None

    @property
    def limit(self) -> int:
        """The most tokens that can be served."""
        return self.max_model_len - 1

    @property
    def target(self) -> int:
        """What a longer prompt is cut to."""
        return self.max_model_len - max(1, min(self.max_tokens or 1, self.max_model_len // 2))

    def check(self, token_ids: Sequence[int], field: str) -> None:
        """Raise PromptTooLong with the field's name if the prompt can't be served."""
        if len(token_ids) > self.limit:
            raise PromptTooLong(field, len(token_ids), self.limit)

    def check_length(self, num_characters: int, field: str) -> None:
        """Raise PromptTooLong if a text of so many characters, each at least a byte, has too many tokens anyway."""
        if self.bytes_per_token is not None and num_characters > self.limit * self.bytes_per_token:
            raise PromptTooLong(field, -(-num_characters // self.bytes_per_token), self.limit, at_least=True)

    def last_characters(self, text: str) -> str:
        """The end of a text that is certainly longer than what it is cut to; short texts are whole."""
        return text if self.bytes_per_token is None else text[-(self.limit + 1) * self.bytes_per_token :]

    def must_cut(self, token_ids: Sequence[int]) -> bool:
        """Whether the prompt is too long, and to be cut for it."""
        return self.truncates and len(token_ids) > self.limit


def fit_token_ids(token_ids: Sequence[int], budget: PromptBudget, field: str) -> list[int]:
    """A prompt of token ids, without its beginning if it must be cut. Raises PromptTooLong."""
    if budget.must_cut(token_ids):
        return list(token_ids[-budget.target :])
    budget.check(token_ids, field)
    return list(token_ids)


def fit_text(tokenizer: Tokenizer, text: str, budget: PromptBudget, field: str) -> list[int]:
    """The tokens of a raw prompt with those that the tokenizer puts around a text. Raises PromptTooLong.

    If it must be cut, the text loses its beginning, and what stands around it stays.
    """
    if budget.truncates:
        text = budget.last_characters(text)
    else:
        budget.check_length(len(text), field)
    token_ids = tokenizer.encode(text, add_special_tokens=True)
    if not budget.must_cut(token_ids):
        budget.check(token_ids, field)
        return token_ids
    plain = tokenizer.encode(text)
    num_around = len(token_ids) - len(plain)
    num_before = next((n for n in range(num_around + 1) if token_ids[n : n + len(plain)] == plain), 0)
    after = token_ids[len(token_ids) - (num_around - num_before) :]
    return [*token_ids[:num_before], *plain[num_around - budget.target :], *after]


def fit_messages(
    messages: Sequence[Message],
    render: Callable[[Sequence[Message]], _Prompt],
    budget: PromptBudget,
) -> _Prompt:
    """A conversation's prompt; if it must be cut, that of what is left without its oldest messages.

    The system's message and the last stay, and no tool's message stays without its call. What is left begins with a
    user's message wherever that leaves anything that fits. Whatever `render` raises passes through, but that what is
    left of it is too long.
    """
    prompt = _tried(render, messages) if budget.truncates else render(messages)
    if prompt is not None and not budget.must_cut(prompt.token_ids):
        return prompt
    num_kept = int(messages[0].role is Role.SYSTEM)

    def kept(start: int) -> list[Message]:
        return [*messages[:num_kept], *messages[start:]]

    @cache
    def rest(start: int) -> _Prompt | None:
        return _tried(render, kept(start))

    def length(start: int) -> int:
        prompt = rest(start)
        return sys.maxsize if prompt is None else len(prompt.token_ids)

    starts = [start for start in _starts(messages) if start > num_kept]
    users = [start for start in starts if messages[start].role is Role.USER]
    for candidates in (users, starts):
        for limit in (budget.target, budget.limit):
            # The later the start, the shorter the prompt: the first that fits is the longest.
            index = bisect_left(candidates, -limit, key=lambda start: -length(start))
            if index < len(candidates) and (found := rest(candidates[index])) is not None:
                return found
    return render(kept(starts[-1]) if starts else messages)


def _tried(render: Callable[[Sequence[Message]], _Prompt], messages: Sequence[Message]) -> _Prompt | None:
    """The prompt; None for one that is certainly too long."""
    try:
        return render(messages)
    except PromptTooLong:
        return None


def fit_last_text(
    messages: Sequence[Message],
    tokenizer: Tokenizer,
    control_tokens: ControlTokens,
    render: Callable[[Sequence[Message]], _Prompt],
    budget: PromptBudget,
) -> _Prompt:
    """A conversation's prompt; if it must be cut, that of it with its last message's text without its beginning.

    What is too long without that text is returned as it is. Whatever `render` raises passes through.
    """
    *earlier, last = messages
    if budget.truncates and len(text := budget.last_characters(last.text)) < len(last.text):
        messages = [*earlier, replace(last, content=(TextPart(text),))]
    prompt = render(messages)
    if not budget.must_cut(prompt.token_ids):
        return prompt
    last = messages[-1]
    token_ids = control_tokens.encode_plain(last.text)
    num_left = len(token_ids)
    for _ in range(_MAX_TRIALS):
        num_left -= len(prompt.token_ids) - budget.target
        if num_left < 1:
            break
        # A cut in the middle of a character leaves some of its bytes.
        text = tokenizer.decode(token_ids[-num_left:], skip_special_tokens=False).lstrip("\ufffd")
        prompt = render([*earlier, replace(last, content=(TextPart(text),))])
        if len(prompt.token_ids) <= budget.target:
            break
    return prompt


def _starts(messages: Sequence[Message]) -> list[int]:
    """Where a conversation may begin, so that no tool's message is left without its call."""
    called: dict[str, int] = {}  # call id → the message that has the call
    needed = list(range(len(messages)))  # the first message that each needs
    for index, message in enumerate(messages):
        if message.role is Role.TOOL:
            needed[index] = called.get(message.tool_call_id, index)
        called |= dict.fromkeys((call.id for call in message.tool_calls), index)
    starts = []
    first_needed = len(messages)
    for start in range(len(messages) - 1, -1, -1):
        first_needed = min(first_needed, needed[start])
        if first_needed >= start:
            starts.append(start)
    return starts[::-1]
