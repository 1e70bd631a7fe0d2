"""Truncate or reject prompts that are longer than the model's context.

The parts to drop, if the request allows it, are found by trial, which may take long: call it on worker threads.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol, TypeVar

from service.engine.tokens.tokenizer import Tokenizer
from service.generation.errors import PromptTooLong
from service.generation.prompts.conversation import Message, Role, TextPart
from service.prompts.tokens.control_tokens import ControlTokens

_MAX_TRIALS = 8  # to truncate a text by tokens: its remainder may have a few more when it is tokenized again


class Rendered(Protocol):
    """A prompt in the form that the model receives."""

    @property
    def token_ids(self) -> Sequence[int]: ...


_Prompt = TypeVar("_Prompt", bound=Rendered)


@dataclass(frozen=True, slots=True)
class PromptBudget:
    """The number of tokens that a prompt may have, in a context of `max_model_len` tokens.

    A prompt that leaves one token for the answer is used as it is. A longer one is rejected, or, if the request
    `truncates`, cut until `max_tokens` are left for the answer, but not to less than half the context; None requests
    one token. `bytes_per_token` is the maximum per token, if it is known.
    """

    max_model_len: int
    max_tokens: int | None
    truncates: bool
    bytes_per_token: int | None = None

    @property
    def limit(self) -> int:
        """The maximal number of prompt tokens."""
        return self.max_model_len - 1

    @property
    def target(self) -> int:
        """The number of tokens to which a longer prompt is truncated."""
        return self.max_model_len - max(1, min(self.max_tokens or 1, self.max_model_len // 2))

    def check(self, token_ids: Sequence[int], field: str) -> None:
        """Raise PromptTooLong for `field` if the prompt has too many tokens."""
        if len(token_ids) > self.limit:
            raise PromptTooLong(field, len(token_ids), self.limit)

    def check_length(self, num_characters: int, field: str) -> None:
        """Raise PromptTooLong if a text of `num_characters`, of at least one byte each, must have too many tokens."""
        if self.bytes_per_token is not None and num_characters > self.limit * self.bytes_per_token:
            raise PromptTooLong(field, -(-num_characters // self.bytes_per_token), self.limit, at_least=True)

    def last_characters(self, text: str) -> str:
        """Return the end of a text, which still has more tokens than the target; short texts are returned unchanged."""
        return text if self.bytes_per_token is None else text[-(self.limit + 1) * self.bytes_per_token :]

    def must_cut(self, token_ids: Sequence[int]) -> bool:
        """Return True if the prompt is too long and has to be truncated."""
        return self.truncates and len(token_ids) > self.limit


def fit_token_ids(token_ids: Sequence[int], budget: PromptBudget, field: str) -> list[int]:
    """Return a prompt of token ids, without its beginning if it must be cut. Raise PromptTooLong."""
    if budget.must_cut(token_ids):
        return list(token_ids[-budget.target :])
    budget.check(token_ids, field)
    return list(token_ids)


def fit_text(tokenizer: Tokenizer, text: str, budget: PromptBudget, field: str) -> list[int]:
    """Return the tokens of a raw prompt, including those that the tokenizer adds around a text. Raise PromptTooLong.

    If it must be cut, the text loses its beginning, and the added tokens stay.
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
    """Return a conversation's prompt, without its oldest messages if it must be cut.

    The system message and the last message stay, and no tool message stays without its call. The rest begins with a
    user message if any such rest fits. Errors of `render` are raised, except PromptTooLong for a rest.
    """
    prompt = _render_or_none(render, messages) if budget.truncates else render(messages)
    if prompt is not None and not budget.must_cut(prompt.token_ids):
        return prompt
    num_kept = int(messages[0].role is Role.SYSTEM)

    def kept(start: int) -> list[Message]:
        return [*messages[:num_kept], *messages[start:]]

    @cache
    def rest(start: int) -> _Prompt | None:
        return _render_or_none(render, kept(start))

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


def _render_or_none(render: Callable[[Sequence[Message]], _Prompt], messages: Sequence[Message]) -> _Prompt | None:
    """Return the prompt; None if it is certainly too long."""
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
    """Return a conversation's prompt, without the beginning of its last message's text if it must be cut.

    A prompt that is too long even without that text is returned as it is. Errors of `render` are raised.
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
    """Return the indices where a conversation may begin without separating a tool message from its call."""
    called: dict[str, int] = {}  # call id → the message that has the call
    needed = list(range(len(messages)))  # the first message that each one needs
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
