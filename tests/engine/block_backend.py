"""A backend and a sampler without torch and tensors, whose tokens can be computed by hand."""

from __future__ import annotations

from collections import abc
from itertools import pairwise

from service.engine.core.batch import Batch
from service.engine.core.engine_core import SampledToken
from service.engine.core.sequences.sequence import Sequence
from service.engine.models.checkpoint.adapter_files import Adapter
from service.generation.errors import SequenceError
from service.generation.outputs.output import TokenLogprob
from service.generation.requests.parameters import LogprobsOptions
from tests.engine.paged_runner import sum_rule

Contexts = list[list[int]]  # instead of a row of logits, the tokens that determine it


class BlockBackend:
    """Stores each token in its block, and returns for each row the tokens that it reads there."""

    def __init__(self) -> None:
        self.memory: list[list[int]] = []
        self.block_size = 0
        self.prepared: list[int | None] = []

    def bytes_per_block(self, block_size: int) -> int:
        return 8 * block_size

    def allocate(self, num_blocks: int, block_size: int) -> None:
        self.memory = [[-1] * block_size for _ in range(num_blocks)]
        self.block_size = block_size

    def prepare_thread(self, num_threads: int | None) -> None:
        self.prepared.append(num_threads)

    def put_adapter(self, slot: int, adapter: Adapter) -> None:
        raise adapter.rejection("", "no adapters")

    def drop_adapter(self, slot: int) -> None:
        raise KeyError(slot)

    def forward(self, batch: Batch) -> Contexts:
        contexts: dict[int, list[int]] = {}
        offsets, positions = pairwise(batch.row_offsets.tolist()), batch.positions.tolist()
        for (first, end), table in zip(offsets, batch.block_tables.tolist(), strict=True):
            assert first < end, "each sequence needs at least one token"
            for row in range(first, end):
                block, offset = divmod(positions[row], self.block_size)
                self.memory[table[block]][offset] = int(batch.token_ids[row])
                tokens = [token_id for block_id in table for token_id in self.memory[block_id]]
                contexts[row] = tokens[: positions[row] + 1]
        return [contexts[row] for row in batch.output_rows.tolist()]


class SumSampler:
    """The next token is that of `sum_rule`. A token's logprob is minus the sum of the tokens before it."""

    def __init__(self) -> None:
        self.num_sampled = 0
        self.num_released = 0

    def sample(
        self, logits: Contexts, sequences: abc.Sequence[Sequence], rows: abc.Sequence[int] | None = None
    ) -> list[SampledToken | SequenceError]:
        self.num_sampled += len(sequences)
        chosen = logits if rows is None else [logits[row] for row in rows]
        return [SampledToken(sum_rule(each, context)) for each, context in zip(sequences, chosen, strict=True)]

    def prompt_logprobs(
        self, logits: Contexts, first_row: int, token_ids: abc.Sequence[int], options: LogprobsOptions
    ) -> list[TokenLogprob]:
        top = [(index, 0.0) for index in range(options.top_logprobs)]
        contexts = logits[first_row : first_row + len(token_ids)]
        return [TokenLogprob(each, -sum(context), top) for each, context in zip(token_ids, contexts, strict=True)]

    def release(self, sequence: Sequence) -> None:
        del sequence
        self.num_released += 1
