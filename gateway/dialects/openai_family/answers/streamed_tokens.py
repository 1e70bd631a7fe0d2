"""Token counts and ids in the chunks of a stream."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import orjson
from sluice.v1.new_tokens_pb2 import NewTokens

from gateway.dialects.openai_family.parameters.stream_options import StreamedUsage

_TAILS = {StreamedUsage.NONE: b"}\n\n", StreamedUsage.LAST: b',"usage":null}\n\n'}


class StreamedTokens:
    """Counts the tokens of one stream. `usage` selects the chunks with usage; `with_ids` adds token ids to each chunk.

    A chunk's usage counts the tokens of its choice so far, as in vLLM.
    """

    def __init__(self, usage: StreamedUsage, *, with_ids: bool = False) -> None:
        self.is_emitted = with_ids or usage is StreamedUsage.EVERY
        self.plain_tail = _TAILS.get(usage, b"")  # the text after the list of choices, if it is constant
        self._usage = usage
        self._with_ids = with_ids
        self._num_prompt_tokens: Sequence[int] = (0,)  # by prompt
        self._n = 1
        self._num_tokens: defaultdict[int, int] = defaultdict(int)  # by choice
        self._new_ids: defaultdict[int, list[int]] = defaultdict(list)  # by choice, those not yet sent in a chunk

    def start(self, num_prompt_tokens: Sequence[int], n: int = 1) -> None:
        """Start the stream with the number of tokens of each prompt, and the number of choices per prompt."""
        self._num_prompt_tokens = num_prompt_tokens or (0,)
        self._n = n

    def add(self, choice_index: int, tokens: NewTokens) -> None:
        """Record a choice's next tokens."""
        self._num_tokens[choice_index] += tokens.num_tokens
        if self._with_ids:
            self._new_ids[choice_index] += tokens.ids

    def take_ids(self, choice_index: int) -> dict[str, list[int]]:
        """Return the field of a chunk's choice with the ids of the tokens since the previous chunk."""
        return {"token_ids": self._new_ids.pop(choice_index, [])} if self._with_ids else {}

    def tail(self, choice_index: int) -> bytes:
        """Return the text from the end of the list of choices to the end of the event."""
        if self._usage is not StreamedUsage.EVERY:
            return self.plain_tail
        num_prompt_tokens = self._num_prompt_tokens[choice_index // self._n]
        num_tokens = self._num_tokens[choice_index]
        usage = {
            "prompt_tokens": num_prompt_tokens,
            "completion_tokens": num_tokens,
            "total_tokens": num_prompt_tokens + num_tokens,
        }
        return b',"usage":%b}\n\n' % orjson.dumps(usage)
