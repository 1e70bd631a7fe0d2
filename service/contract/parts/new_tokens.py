"""The tokens of each message of a stream, if the request asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sluice.v1 import new_tokens_pb2

from service.generation.outputs.events import Started, Tokens


class TokenEmitter:
    """Return the tokens of a stream as requested."""

    def __init__(self, request: Any) -> None:
        """`request` is a message with the field `tokens`."""
        self._is_requested = request.HasField("tokens")
        self._with_ids = request.tokens.ids

    def of_prompts(self, started: Started) -> Sequence[Sequence[int]]:
        """Return the token ids of each prompt; empty unless ids are requested."""
        return started.prompt_token_ids if self._with_ids else ()

    def of_output(self, tokens: Tokens) -> new_tokens_pb2.NewTokens | None:
        """Return the tokens of one output; None if there are none, or they are not requested."""
        if not self._is_requested or not tokens.token_ids:
            return None
        ids = tokens.token_ids if self._with_ids else ()
        return new_tokens_pb2.NewTokens(num_tokens=len(tokens.token_ids), ids=ids)


def choice_index(event: Any) -> int:
    """Return the choice index of a stream's message with `tokens`."""
    index: int = getattr(event, event.WhichOneof("event")).choice_index
    return index
