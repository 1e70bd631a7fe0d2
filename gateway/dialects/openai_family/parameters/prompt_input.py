"""Raw prompts in OpenAI's family: one text, several texts, or token ids instead of texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, TypeAlias, TypeVar

from sluice.v1 import prompt_pb2

from gateway.dialects.seam.failure import Failure, Reason

T = TypeVar("T")

PromptInput: TypeAlias = str | list[str | int | list[int]]

_PART: Final = re.compile(r"^\w+\.(\d+)(?:\.text|\.token_ids(?:\.ids(?:\.(\d+))?)?)?$")


def to_prompts(value: PromptInput, field: str) -> list[prompt_pb2.Prompt]:
    """Return the contract's prompts. A list of integers is one prompt of token ids. Raise Failure for `field`."""
    if isinstance(value, str):
        return [prompt_pb2.Prompt(text=value)]
    if value and isinstance(value[0], int):
        return [_of_tokens(_of_one_type(value, int, "an integer", field), field)]
    if value and isinstance(value[0], list):
        lists = _of_one_type(value, list, "a list", field)
        return [_of_tokens(ids, f"{field}.{i}") for i, ids in enumerate(lists)]
    return [prompt_pb2.Prompt(text=text) for text in _of_one_type(value, str, "a string", field)]


def prompt_name(path: str, value: PromptInput, field: str) -> str:
    """Return the caller's name of a dotted path into the contract's prompts: `prompts.1.text` → `prompt.1`."""
    part = _PART.match(path)
    if part is None or isinstance(value, str):
        return field
    index, token = part[1], part[2]
    is_token_list = bool(value) and isinstance(value[0], int)
    return ".".join(name for name in (field, None if is_token_list else index, token) if name is not None)


def _of_one_type(items: Sequence[object], kind: type[T], kind_name: str, field: str) -> list[T]:
    of_type = [item for item in items if isinstance(item, kind)]
    if len(of_type) < len(items):
        i = next(i for i, item in enumerate(items) if not isinstance(item, kind))
        raise Failure.of_field(f"{field}.{i}", f"must be {kind_name}, as the first item is", Reason.INVALID_TYPE)
    return of_type


def _of_tokens(ids: list[int], field: str) -> prompt_pb2.Prompt:
    """Return a prompt of token ids. Raise Failure for ids out of range."""
    prompt = prompt_pb2.Prompt(token_ids=prompt_pb2.TokenIds())
    try:
        prompt.token_ids.ids.extend(ids)
    except ValueError:
        for i, token_id in enumerate(ids):
            if not 0 <= token_id < 2**32:
                raise Failure.of_field(f"{field}.{i}", f"must be from 0 to {2**32 - 1}") from None
        raise
    return prompt
