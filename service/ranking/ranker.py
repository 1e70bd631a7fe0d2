"""The interface of rankers, which score documents for queries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from service.generation.caller import Caller
from service.generation.errors import InvalidRequest
from service.generation.requests.ranking import Activation, RankingOutput, TextsToRank
from service.prompts.pairs.pair_reader import PairReader, PairTexts, PairTokens
from service.prompts.preparing.chunk import TextThreads
from service.prompts.preparing.priority import check_priority

MAX_TOKENS: Final = 1 << 20  # of all texts of one request


@dataclass(frozen=True, slots=True)
class PreparedRanking:
    """The computation of a request. `run` raises the engine's errors; cancelling it aborts the request."""

    num_tokens: int
    run: Callable[[], Awaitable[RankingOutput]]


class Ranker(Protocol):
    """Scores documents for one model."""

    @property
    def activation(self) -> Activation:
        """The function that makes scores of the model's numbers."""

    async def prepare(
        self, texts: TextsToRank, request_id: str, deadline: float | None, caller: Caller
    ) -> PreparedRanking:
        """Return a request ready to run. `deadline` is a `time.monotonic()` instant in seconds.

        Raise InvalidRequest or PromptTooLong, with the field's name.
        """


class TokenCount:
    """Counts the tokens of a request, up to the limit."""

    def __init__(self) -> None:
        self.total = 0

    def add(self, num_tokens: int) -> None:
        """Add tokens. Raise InvalidRequest if the request has too many."""
        self.total += num_tokens
        if self.total > MAX_TOKENS:
            raise InvalidRequest(
                "documents", f"have more than {MAX_TOKENS} tokens in all, including the query's for each"
            )


async def read_pairs(
    texts: TextsToRank, reader: PairReader, threads: TextThreads, caller: Caller
) -> tuple[list[PairTokens], int]:
    """Return the tokens of all pairs and their number. Raise InvalidRequest or PromptTooLong, with the field's name."""
    check_priority(texts.priority, caller)
    if texts.instruction and not reader.takes_instruction:
        raise InvalidRequest("options.instruction", "the model takes no instruction")
    pairs = texts.pairs
    count = TokenCount()

    def read(indices: range) -> list[PairTokens]:
        found = []
        for query, document in pairs[indices.start : indices.stop]:
            pair_texts = PairTexts(
                query=texts.queries[query],
                document=texts.documents[document],
                query_field=texts.query_field(query),
                document_field=f"documents[{document}]",
                instruction=texts.instruction,
                truncates=texts.truncates,
                max_document_tokens=texts.max_document_tokens,
            )
            found.append(reader.read(pair_texts))
            count.add(len(found[-1].token_ids))
        return found

    sizes = [len(texts.queries[query]) + len(texts.documents[document]) for query, document in pairs]
    return await threads.read(sizes, read), count.total
