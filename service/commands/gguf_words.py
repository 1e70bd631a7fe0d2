"""Split a text into words as a GGUF file's `tokenizer.ggml.pre` defines, before bytes are merged.

Transformers has the patterns of some; the others that Llama's and Qwen's relatives have are here. What neither has is
refused, since a text that is cut otherwise gets other tokens than the model was trained with.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

from service.generation.errors import ModelLoadError

_MERGED: Final = "gpt2"  # the tokenizers that have words; others name theirs by `tokenizer.ggml.model` alone


def _plain() -> Any:
    """GPT-2's words."""
    return pre_tokenizers.ByteLevel(add_prefix_space=False)


def _single_digits() -> Any:
    """GPT-2's words, and each digit one of its own."""
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _plain()])


def _split(*patterns: str, digits: bool = False) -> Any:
    steps: list[Any] = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    steps += [pre_tokenizers.Digits(individual_digits=True)] if digits else []
    return pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _deepseek_coder() -> Any:
    return _split(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", digits=True)


_OWN: Final[dict[str, Callable[[], Any]]] = {
    **dict.fromkeys(("gpt-2", "phi-2", "olmo", "exaone4", "gigachat", "mellum", "a.x-4.0", "trillion"), _plain),
    **dict.fromkeys(
        ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"), _single_digits
    ),
    "deepseek-coder": _deepseek_coder,
}
# Of these a word that is a token is one, whatever the merges would make of it.
_WHOLE_WORDS: Final = frozenset(
    {
        *("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"),
        "tekken",
    }
)
_COMPOSED: Final = frozenset({"qwen2"})  # accents are joined with their letters first


def check_words(file: Path, kind: str, words: str) -> None:
    """Raise ModelLoadError if the words of a tokenizer aren't known.

    `kind` is the file's `tokenizer.ggml.model`, `words` its `tokenizer.ggml.pre`, empty where it says none.
    """
    if kind != _MERGED or words in _OWN or words in _of_transformers():
        return
    if words in {"", "default"}:
        raise ModelLoadError(
            f"{file}: it doesn't say how its tokenizer cuts words (tokenizer.ggml.pre); files of newer "
            "releases of llama.cpp do"
        )
    known = ", ".join(sorted({*_OWN, *_of_transformers()}))
    raise ModelLoadError(f"{file}: its tokenizer cuts words as {words!r} (tokenizer.ggml.pre); known are {known}")


def set_words(folder: Path, kind: str, words: str) -> None:
    """Let the tokenizer.json that transformers made cut words as `words` says. `check_words` came before."""
    if kind != _MERGED:
        return
    file = str(folder / "tokenizer.json")
    tokenizer: Any = tokenizers.Tokenizer.from_file(file)
    own = _OWN.get(words)
    tokenizer.pre_tokenizer = own() if own else _split(_of_transformers()[words])
    if words in _WHOLE_WORDS:
        tokenizer.model.ignore_merges = True
    if words in _COMPOSED:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.save(file)


def _of_transformers() -> dict[str, str]:
    from transformers.integrations.gguf import gguf_tokenizer_mapping  # noqa: PLC0415  it takes seconds

    found: dict[str, str] = gguf_tokenizer_mapping.GGUF_PRE_TOKENIZER_SPLITS
    return found
