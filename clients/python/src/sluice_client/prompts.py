"""Prompts of requests, from texts or token ids."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from sluice_client.v1 import prompt_pb2


def to_prompts(prompts: str | Sequence[Any]) -> list[prompt_pb2.Prompt]:
    """Return the prompts of a request: one text, one list of token ids, or several. Raise TypeError for other types."""
    if isinstance(prompts, str):
        return [prompt_pb2.Prompt(text=prompts)]
    if len(prompts) and isinstance(prompts[0], Integral):
        ids: Any = prompts  # all have the type of the first
        return [prompt_pb2.Prompt(token_ids=prompt_pb2.TokenIds(ids=ids))]
    return [_to_prompt(each) for each in prompts]


def _to_prompt(prompt: object) -> prompt_pb2.Prompt:
    if isinstance(prompt, prompt_pb2.Prompt):
        return prompt
    if isinstance(prompt, str):
        return prompt_pb2.Prompt(text=prompt)
    raise TypeError(f"prompts must be a text, texts, token ids or Prompt messages (got {type(prompt).__name__})")
