"""Tokenize a query and a document that a model reads as one input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from service.generation.requests.embedding import TokenIds


@dataclass(frozen=True, slots=True)
class PairTexts:
    """A pair with the request's fields of its texts. With `max_document_tokens` None the document isn't limited."""

    query: str
    document: str
    query_field: str
    document_field: str
    instruction: str = ""
    truncates: bool = False
    max_document_tokens: int | None = None


class PairTokens(NamedTuple):
    """A pair's tokens, and the index of the second text's first token; 0 if the model doesn't distinguish the texts."""

    token_ids: TokenIds
    second_start: int


class PairReader(Protocol):
    """Reads pairs. Any thread may call it."""

    @property
    def takes_instruction(self) -> bool:
        """True if a pair is read with an instruction."""

    def read(self, texts: PairTexts) -> PairTokens:
        """Return the tokens of a pair. Raise PromptTooLong for the text that is too long."""
