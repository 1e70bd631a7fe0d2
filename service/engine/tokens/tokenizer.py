"""The conversion of text to token ids and back.

The module has the `Tokenizer` protocol and its implementation for a model folder's tokenizer.json. A tokenizer does
not change after the load, so any thread may call it. It does not handle chat templates, stop strings or end-of-text
ids, which come from the model's generation_config.json.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import tokenizers

from service.engine.tokens.spelling import Spelling
from service.engine.tokens.token_table import TokenTable
from service.generation.errors import ModelLoadError


class Vocabulary(Protocol):
    """The part of a tokenizer that an engine uses."""

    @property
    def json(self) -> str:
        """The text of tokenizer.json."""

    @property
    def vocab_size(self) -> int:
        """The largest token id plus one."""

    @property
    def special_token_ids(self) -> frozenset[int]:
        """The ids of control tokens, such as the end of a turn, which are not part of the text."""

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes that one token adds to a text; empty for an id without a token."""


class Tokenizer(Vocabulary, Protocol):
    """The tokenizer interface of the service."""

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        """Return the ids of `text`. Control tokens spelled out in the text become their ids."""

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Return the text of a complete sequence of ids."""


class FastTokenizer:
    """A tokenizer.json that is run by the `tokenizers` library."""

    def __init__(self, text: str) -> None:
        """`text` is the content of a tokenizer.json. Raise ModelLoadError if it is invalid."""
        try:
            self._tokenizer: Any = tokenizers.Tokenizer.from_str(text)
        except Exception as error:  # the library raises bare Exception
            raise ModelLoadError(f"not a tokenizer.json: {error}") from error
        # Some published files truncate and pad to the lengths of their training.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        vocabulary: dict[str, int] = self._tokenizer.get_vocab(with_added_tokens=True)
        added = self._tokenizer.get_added_tokens_decoder()
        decoder = self._tokenizer.decoder
        spelling = Spelling(None if decoder is None else json.loads(decoder.__getstate__()))
        tokens = spelling.vocabulary_bytes(vocabulary, {token_id: token.content for token_id, token in added.items()})
        self.table = TokenTable(text, tokens, (token_id for token_id, token in added.items() if token.special))
        self.vocab_size = self.table.vocab_size
        self.special_token_ids = self.table.special_token_ids

    @classmethod
    def from_folder(cls, folder: Path) -> FastTokenizer:
        """Load `folder`/tokenizer.json. Raise ModelLoadError with the file's name if that fails."""
        path = folder / "tokenizer.json"
        try:
            return cls(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, ModelLoadError) as error:
            raise ModelLoadError(f"{path}: {error}") from error

    @property
    def json(self) -> str:
        """The text of tokenizer.json."""
        return self.table.json

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        """Return the ids of `text`. Control tokens spelled out in the text become their ids."""
        return encode_releasing_gil(self._tokenizer, text, add_special_tokens=add_special_tokens)

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Return the text of a complete sequence of ids, with the interpreter lock released."""
        text: str
        (text,) = self._tokenizer.decode_batch([list(ids)], skip_special_tokens=skip_special_tokens)
        return text

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes that one token adds to a text; empty for an id without a token."""
        return self.table.token_bytes(token_id)


def encode_releasing_gil(tokenizer: Any, text: str, *, add_special_tokens: bool) -> list[int]:
    """Return the ids of a text by a tokenizer of the `tokenizers` library, with the interpreter lock released.

    Only the library's batch methods release the lock. A text of a million characters takes seconds, during which
    `encode` would block the event loop and all engines.
    """
    (encoding,) = tokenizer.encode_batch_fast([text], add_special_tokens=add_special_tokens)
    ids: list[int] = encoding.ids
    return ids
