"""Word splitters of GGUF tokenizers, which `tokenizer.ggml.pre` names; bytes are merged within words.

Transformers has the patterns of some splitters; this module has further ones. An unknown
splitter is rejected, because a different split yields tokens that the model was not trained with.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers, processors

from service.generation.errors import ModelLoadError

_ASIAN: Final = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
_MERGED: Final = "gpt2"  # the kind of tokenizer that has a word splitter


def _plain() -> Any:
    """GPT-2's splitter."""
    return pre_tokenizers.ByteLevel(add_prefix_space=False)


def _single_digits() -> Any:
    """GPT-2's splitter with single digits."""
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _plain()])


def _falcon() -> Any:
    """GPT-2's splitter after punctuation, with numbers of three digits."""
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Punctuation("contiguous"),
            _plain(),
            pre_tokenizers.Digits(individual_digits=False),
            pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated"),
        ]
    )


def _split(*patterns: str, digits: bool = False) -> Any:
    """Return a pre-tokenizer that splits by the patterns in order, and then into bytes."""
    steps: list[Any] = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    steps += [pre_tokenizers.Digits(individual_digits=True)] if digits else []
    return pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _deepseek_llm() -> Any:
    marks = "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"
    return _split(r"[\r\n]", r"\s?[\p{Lu}\p{Ll}\p{Lt}]+", marks, r"\s+$", _ASIAN, digits=True)


def _deepseek_coder() -> Any:
    return _split(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _ASIAN, digits=True)


def _deepseek_v3() -> Any:
    return _split(
        r"\p{N}{1,3}",
        "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
        r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    )


def _seed_coder() -> Any:
    return _split(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}"
        r"| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


def _jais2() -> Any:
    """Return a splitter that cuts long runs of spaces into powers of two."""
    spaces = "|".join(rf"\s{{{count}}}(?!\S)" for count in (512, 256, 128, 64, 32, 16, 8, 4))
    return _split(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
        rf"{spaces}|\s{{1,2}}(?!\S)|\s{{1}}"
    )


_OWN: Final[dict[str, Callable[[], Any]]] = {
    **dict.fromkeys(("gpt-2", "phi-2", "mpt", "olmo", "jais", "exaone4", "gigachat", "mellum", "a.x-4.0"), _plain),
    "trillion": _plain,
    "falcon": _falcon,
    **dict.fromkeys(
        ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"), _single_digits
    ),
    "deepseek-llm": _deepseek_llm,
    "deepseek-coder": _deepseek_coder,
    **dict.fromkeys(("deepseek-v3", "hunyuan-dense"), _deepseek_v3),
    "seed-coder": _seed_coder,
    "jais-2": _jais2,
}
# Splitters whose patterns are those of another one that transformers has.
_ALIKE: Final = {"chatglm-bpe": "llama-bpe", "glm4": "llama-bpe", "hunyuan": "qwen2", "stablelm2": "qwen2"}
# Splitters whose words are one token if the vocabulary has them, regardless of the merges. Their texts begin with a
# token unless the file says otherwise.
_WHOLE_WORDS: Final = frozenset(
    {
        *("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"),
        "tekken",
    }
)
_COMPOSED: Final = frozenset({"qwen2", "qwen35"})  # splitters after Unicode composition (NFC)


def check_splitter(file: Path, kind: str, name: str) -> None:
    """Raise ModelLoadError if a tokenizer's word splitter isn't known.

    `kind` is the file's `tokenizer.ggml.model`, `name` its `tokenizer.ggml.pre`, empty if it has none.
    """
    if kind != _MERGED or name in _OWN or name in _ALIKE or name in _of_transformers():
        return
    if name in {"", "default"}:
        raise ModelLoadError(
            f"{file}: its pre-tokenizer is unknown (tokenizer.ggml.pre); convert the model with a newer llama.cpp"
        )
    known = ", ".join(sorted({*_OWN, *_ALIKE, *_of_transformers()}))
    raise ModelLoadError(f"{file}: unsupported pre-tokenizer {name!r} (tokenizer.ggml.pre); supported are {known}")


def set_splitter(
    folder: Path, kind: str, name: str, bos: tuple[str, int] | None = None, *, adds_bos: bool | None = None
) -> None:
    """Set the word splitter in the tokenizer.json that transformers wrote. `name` must have passed `check_splitter`.

    `bos` are the text and the id of the token with which texts begin; with `adds_bos` None, if the splitter implies it.
    """
    if kind != _MERGED:
        return
    file = str(folder / "tokenizer.json")
    tokenizer: Any = tokenizers.Tokenizer.from_file(file)
    splitter = _OWN.get(name)
    tokenizer.pre_tokenizer = splitter() if splitter else _split(_of_transformers()[_ALIKE.get(name, name)])
    if name in _WHOLE_WORDS:
        tokenizer.model.ignore_merges = True
    if bos is not None and (name in _WHOLE_WORDS if adds_bos is None else adds_bos):
        text, _ = bos
        tokenizer.post_processor = processors.TemplateProcessing(
            single=[text, "$A"], pair=[text, "$A", f"{text}:1", "$B:1"], special_tokens=[bos]
        )
    if name in _COMPOSED:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.save(file)


def drop_first_space(folder: Path) -> None:
    """Let the tokenizer.json that transformers wrote add no space before texts, and keep that of a decoded text."""
    file = folder / "tokenizer.json"
    tokenizer = json.loads(file.read_text(encoding="utf-8"))
    splitter, decoder = tokenizer["pre_tokenizer"] or {}, tokenizer["decoder"] or {}
    if splitter.get("type") != "Metaspace":  # it adds none
        return
    splitter["prepend_scheme"] = "never"
    if decoder.get("type") == "Sequence":
        decoder["decoders"] = [step for step in decoder["decoders"] if step["type"] != "Strip"]
    file.write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")


def _of_transformers() -> dict[str, str]:
    """Return the split patterns that transformers knows, by name."""
    from transformers.integrations.gguf import gguf_tokenizer_mapping  # noqa: PLC0415  it takes seconds

    found: dict[str, str] = gguf_tokenizer_mapping.GGUF_PRE_TOKENIZER_SPLITS
    return found
