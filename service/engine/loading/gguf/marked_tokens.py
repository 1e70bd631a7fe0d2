"""The tokens of a GGUF file that texts have by their names: control tokens, and those that a model's author defined.

Transformers spells a token with characters beyond the byte alphabet like a word, so that no text has it. DeepSeek's
and Hunyuan's control tokens are such, as are runs of spaces in the vocabulary of GPT-NeoX.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

_CONTROL, _USER_DEFINED = 3, 4  # types of tokens
_KEEPS_SPACE: Final = frozenset({"<unk>", "<s>", "<|endoftext|>"})


def restore_marked_tokens(folder: Path, tokens: Sequence[str], types: Sequence[int]) -> None:
    """Give the tokens their names in the byte-level tokenizer.json that transformers wrote, and their ids."""
    file = folder / "tokenizer.json"
    tokenizer = json.loads(file.read_text(encoding="utf-8"))
    marked = {i: kind for i, kind in enumerate(types[: len(tokens)]) if kind in {_CONTROL, _USER_DEFINED}}
    added = {token["content"]: token for token in tokenizer["added_tokens"]}
    missing = {tokens[i] for i in marked} - {text for text, token in added.items() if token["id"] < len(tokens)}
    if not missing:
        return
    model = tokenizer["model"]
    spelled = {token_id: text for text, token_id in model["vocab"].items()}
    merged = {part for merge in model["merges"] for part in _parts(merge)}
    vocabulary: dict[str, int] = {}
    for token_id, text in enumerate(tokens):
        is_named = text in missing and token_id in marked and spelled.get(token_id) not in merged
        vocabulary.setdefault(text if is_named else spelled.get(token_id, text), token_id)
        if is_named and vocabulary[text] == token_id:
            added[text] = _added(text, token_id, is_special=marked[token_id] == _CONTROL)
    model["vocab"] = vocabulary
    tokenizer["added_tokens"] = sorted(added.values(), key=lambda token: int(token["id"]))
    file.write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")


def strip_after_marked_tokens(folder: Path) -> None:
    """Ignore white space after the control tokens of Phi-3, which a file doesn't state."""
    file = folder / "tokenizer.json"
    tokenizer = json.loads(file.read_text(encoding="utf-8"))
    for token in tokenizer["added_tokens"]:
        token["rstrip"] = token["content"] not in _KEEPS_SPACE
    file.write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")


def _parts(merge: Any) -> tuple[str, ...]:
    """Return the two tokens of a merge, and the merged one."""
    first, second = merge.split(" ") if isinstance(merge, str) else merge
    return first, second, first + second


def _added(text: str, token_id: int, *, is_special: bool) -> dict[str, Any]:
    return {
        "id": token_id,
        "content": text,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": is_special,
    }
