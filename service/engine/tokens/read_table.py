"""Read the bytes of a vocabulary's tokens from tokenizer.json, without building the tokenizer.

An engine neither encodes nor decodes, and the `tokenizers` library takes several times as long to build the tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from service.engine.tokens.spelling import Spelling
from service.engine.tokens.token_table import TokenTable
from service.engine.tokens.tokenizer import FastTokenizer


class _UncommonError(Exception):
    """Only the library knows which ids the tokens have."""


def read_token_table(folder: Path) -> TokenTable:
    """Return the table of `folder`/tokenizer.json, which is that of `FastTokenizer`. Raise ModelLoadError.

    Errors that have nothing to do with tokens are left to the process that encodes.
    """
    try:
        text = (folder / "tokenizer.json").read_text(encoding="utf-8")
        return _table_of(text, json.loads(text))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, _UncommonError):
        return FastTokenizer.from_folder(folder).table  # which knows all forms, or raises


def _table_of(text: str, settings: Any) -> TokenTable:
    """Return the table of a tokenizer.json. Raise _UncommonError, or an error of a wrong type or key."""
    vocabulary = _vocabulary(settings["model"])
    added = _added(settings["added_tokens"], vocabulary)
    special = [token_id for token_id, token in added.items() if token["special"]]
    texts = {token_id: token["content"] for token_id, token in added.items()}
    vocabulary |= {content: token_id for token_id, content in texts.items()}
    tokens = Spelling(settings["decoder"]).vocabulary_bytes(vocabulary, texts)
    return TokenTable(text, tokens, special)


def _vocabulary(model: Mapping[str, Any]) -> dict[str, int]:
    """Return the ids of a model's own tokens by text."""
    vocab = model["vocab"]
    found = {piece: token_id for token_id, (piece, _) in enumerate(vocab)} if isinstance(vocab, list) else dict(vocab)
    ids = set(found.values())
    are_ids = set(map(type, ids)) <= {int} and min(ids, default=0) >= 0
    if not are_ids or len(ids) < len(vocab) or max(ids, default=-1) >= len(vocab) or "" in found:
        raise _UncommonError
    return found


def _added(tokens: list[Any], vocabulary: Mapping[str, int]) -> dict[int, Any]:
    """Return the added tokens by id. Their ids must be those that the library gives to them."""
    found: dict[int, Any] = {}
    next_id = len(vocabulary)
    for token in tokens:
        expected = vocabulary.get(token["content"], next_id)
        is_text = isinstance(token["content"], str) and token["content"]
        if not is_text or token["id"] != expected or expected in found or type(token["special"]) is not bool:
            raise _UncommonError
        found[expected] = token
        next_id = max(next_id, expected + 1)
    return found
