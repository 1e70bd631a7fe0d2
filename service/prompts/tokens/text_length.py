"""The minimal number of tokens for a text's length, to reject long texts before they are tokenized."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from service.engine.tokens.tokenizer import Tokenizer

_SHRINKS = {"Prepend": 1, "Replace": 1, "NFC": 3}  # the factor by which a normalizer may shorten a text in bytes
_KEEPS_ALL = frozenset({"ByteLevel", "Split", "Digits", "Metaspace", "Punctuation"})  # pre-tokenizers


def most_bytes_per_token(tokenizer: Tokenizer) -> int | None:
    """Return the maximal number of bytes per token; None for a tokenizer that may drop or merge text.

    Every byte is in a token if the vocabulary has all bytes, and nothing before it strips any.
    """
    settings = json.loads(tokenizer.json)
    model = settings.get("model", {})
    splitters = list(_steps(settings.get("pre_tokenizer"), "pretokenizers"))
    normalizers = list(_steps(settings.get("normalizer"), "normalizers"))
    has_all_bytes = model.get("byte_fallback") or any(each["type"] == "ByteLevel" for each in splitters)
    is_known = (
        model.get("type") in {"BPE", "Unigram"}
        and has_all_bytes
        and all(each["type"] in _KEEPS_ALL and each.get("behavior") != "Removed" for each in splitters)
        and all(each["type"] in _SHRINKS and _keeps_length(each) for each in normalizers)
        and not any(token.get("lstrip") or token.get("rstrip") for token in settings.get("added_tokens", ()))
    )
    if not is_known:
        return None
    shrinks = max((_SHRINKS[each["type"]] for each in normalizers), default=1)
    return shrinks * max(len(tokenizer.token_bytes(token_id)) for token_id in range(tokenizer.vocab_size))


def _steps(given: Any, name: str) -> Iterator[dict[str, Any]]:
    """Yield a step, or the steps of a sequence."""
    if given is None:
        return
    if given["type"] == "Sequence":
        for step in given[name]:
            yield from _steps(step, name)
    else:
        yield given


def _keeps_length(normalizer: dict[str, Any]) -> bool:
    """Return True unless it replaces text by something shorter."""
    if normalizer["type"] != "Replace":
        return True
    pattern = normalizer["pattern"].get("String")
    return pattern is not None and len(pattern.encode()) <= len(normalizer["content"].encode())
