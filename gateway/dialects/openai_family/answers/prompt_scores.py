"""The logprobs of a prompt's tokens in vLLM's form."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
from sluice.v1.logprobs_pb2 import TokenLogprob

from gateway.dialects.openai_family.answers.token_list import finite


def to_prompt_logprobs(logprobs: Sequence[TokenLogprob]) -> orjson.Fragment:
    """Return a list of objects by token id; null for the first token, which has no logprob.

    Each has the most likely tokens and the prompt's own; `rank` counts from 1, and is null for a prompt's token that is
    not among the most likely ones.
    """
    written: list[dict[str, dict[str, object]] | None] = []
    for index, token in enumerate(logprobs):
        entries = {str(top.token_id): _entry(top, rank) for rank, top in enumerate(token.top_logprobs, 1)}
        entries.setdefault(str(token.token_id), _entry(token, None))
        written.append(entries if index else None)
    return orjson.Fragment(orjson.dumps(written))


def _entry(token: TokenLogprob, rank: int | None) -> dict[str, object]:
    return {"logprob": finite(token.logprob), "rank": rank, "decoded_token": token.token}
