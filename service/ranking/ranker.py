"""The interface of rankers, which score documents for queries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Protocol

from service.generation.caller import Caller
from service.generation.errors import InvalidRequest
from service.generation.requests.ranking import Activation, RankingOutput, TextsToRank
from service.prompts.pairs.pair_reader import PairReader, PairTexts, PairTokens
from service.prompts.preparing.chunk import read_in_chunks
from service.prompts.preparing.priority import check_priority

MAX_TOKENS: Final = 1 << 20  # of all that is computed for one request


@dataclass(frozen=True, slots=True)
class PreparedRanking:
    """What is to be computed for a request. `run` raises what the engine raises; leaving it is the abort."""

    num_tokens: int
    run: Callable[[], Awaitable[RankingOutput]]


class Ranker(Protocol):
    """Scores for one model."""

    @property
    def activation(self) -> Activation:
        """What makes scores of the numbers that it computes."""

    async def prepare(
        self, asked: TextsToRank, request_id: str, deadline: float | None, caller: Caller
    ) -> PreparedRanking:
        """Make a request ready to run. `deadline` is a `time.monotonic()` instant in seconds.

        Raises InvalidRequest and PromptTooLong, naming the field.
        """


class TokenCount:
    """How many tokens a request has so far."""

    def __init__(self) -> None:
        self.total = 0

    def add(self, num_tokens: int) -> None:
        """Raise InvalidRequest once they are too many."""
        self.total += num_tokens
        if self.total > MAX_TOKENS:
            raise InvalidRequest("documents", f"have more than {MAX_TOKENS} tokens in all, with the query's for each")


async def read_pairs(
    asked: TextsToRank, reader: PairReader, pool: ThreadPoolExecutor, caller: Caller
) -> tuple[list[PairTokens], int]:
    """The tokens of all pairs, and how many they are. Raises InvalidRequest and PromptTooLong, naming the field."""
    check_priority(asked.priority, caller)
    if asked.instruction and not reader.takes_instruction:
        raise InvalidRequest("options.instruction", "the model takes none")
    pairs = asked.pairs
    count = TokenCount()

    def read(indices: range) -> list[PairTokens]:
        found = []
        for query, document in pairs[indices.start : indices.stop]:
            texts = PairTexts(
                query=asked.queries[query],
                document=asked.documents[document],
                query_field=asked.query_field(query),
                document_field=f"documents[{document}]",
                instruction=asked.instruction,
                truncates=asked.truncates,
                max_document_tokens=asked.max_document_tokens,
            )
            found.append(reader.read(texts))
            count.add(len(found[-1].token_ids))
        return found

    sizes = [len(asked.queries[query]) + len(asked.documents[document]) for query, document in pairs]
    return await read_in_chunks(pool, sizes, read), count.total
