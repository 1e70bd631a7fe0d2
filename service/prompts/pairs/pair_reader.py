"""Tokenize a query and a document that a model reads together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from service.generation.requests.embedding import TokenIds


@dataclass(frozen=True, slots=True)
class PairTexts:
    """A pair, and what the caller's request calls its texts. `max_document_tokens` None is all of the document."""

    query: str
    document: str
    query_field: str
    document_field: str
    instruction: str = ""
    truncates: bool = False
    max_document_tokens: int | None = None


class PairTokens(NamedTuple):
    """The pair's tokens, and the place of the first one that belongs to its second text; 0 if none is told apart."""

    token_ids: TokenIds
    second_start: int


class PairReader(Protocol):
    """Any thread may call it."""

    @property
    def takes_instruction(self) -> bool:
        """Whether a pair is read with one."""

    def read(self, texts: PairTexts) -> PairTokens:
        """The tokens of a pair. Raises PromptTooLong for the text that is too long."""
