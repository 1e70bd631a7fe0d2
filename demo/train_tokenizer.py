"""Train the demo model's byte-level BPE tokenizer and write it, with its settings, to a model folder.

`python -m demo.train_tokenizer --force` rewrites `tokenizer.json` and `tokenizer_config.json` in `demo/model/`. The
text is the training side of the corpus; the same seed gives the same file. A token does not include the space before
its word, except for a closed list of function words. So a name has the same tokens after a space, a quote and a
bracket, which makes copying easy.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from demo.corpus.conversation import segments
from demo.corpus.mixture import conversations
from demo.corpus.phrasebook import words

MODEL = Path(__file__).parent / "model"

CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
"""Control tokens, which decoding skips."""

VISIBLE = (
    "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<tools>", "</tools>",
)  # fmt: skip
"""Markers with a token of their own that remain in the text, since parsers of answers need them."""

LITTLE_WORDS = words("little")

_LITTLE = "|".join(sorted((w for word in LITTLE_WORDS for w in (word, word.capitalize())), key=len, reverse=True))
PIECES = "|".join((
    rf"(?: |(?<![A-Za-z0-9_]))(?:{_LITTLE})(?![A-Za-z0-9_])",  # a function word, with the space before it
    r"[A-Z]?[a-z]+",  # a word, or a part of one written like maxTokens
    r"[A-Z]",  # any other capital, alone
    r"[0-9]",  # digits one by one
    r" ?[^\sA-Za-z0-9]+",  # punctuation and other scripts, with the space before them
    r" +(?= )| |\n+|\s",
))  # fmt: skip
"""The pieces of a text: BPE merges only within one of them."""


def texts(seed: int, count: int) -> Iterator[str]:
    """Yield the text of `count` training conversations."""
    for _, conversation in zip(range(count), conversations(seed), strict=False):
        yield "".join(text for text, _ in segments(conversation))


def train(vocab_size: int, seed: int, count: int) -> Tokenizer:
    """Train a byte-level BPE on the corpus. All 256 bytes have a token, so every text round-trips."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(VISIBLE),
        special_tokens=list(CONTROL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=sys.stderr.isatty(),
    )
    marks = str.maketrans(dict.fromkeys("\0", ""))
    plain = (strip_marks(text).translate(marks) for text in texts(seed, count))
    tokenizer.train_from_iterator(plain, trainer)
    tokenizer.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in VISIBLE])
    return tokenizer


def strip_marks(text: str) -> str:
    """Return `text` without the tokens that BPE must not learn from."""
    for mark in CONTROL + VISIBLE:
        text = text.replace(mark, "\n")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vocab-size", type=int, default=2048)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--conversations", type=int, default=60_000)
    parser.add_argument("--into", type=Path, default=MODEL)
    parser.add_argument(
        "--force", action="store_true", help="overwrite a tokenizer, and make weights trained with it useless"
    )
    options = parser.parse_args()
    path = options.into / "tokenizer.json"
    if path.exists() and not options.force:
        sys.exit(f"{path} exists; --force overwrites it, and weights trained with it become useless")
    options.into.mkdir(parents=True, exist_ok=True)
    tokenizer = train(options.vocab_size, options.seed, options.conversations)
    tokenizer.save(str(path))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": None,
        "additional_special_tokens": ["<|im_start|>"],
        "clean_up_tokenization_spaces": False,
        "model_max_length": 2048,
    }
    (options.into / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")


if __name__ == "__main__":
    main()
