"""Packing of conversations into rows of equal length, several per row, with little padding.

Most conversations are short, and the cost of attention grows with the square of a row's length. Therefore there are
two row lengths, and a batch has rows of one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import pad

from demo.corpus.conversation import Conversation, segments

OPEN_ROWS = 48
"""Rows that wait for a conversation that fits; with more of them, fewer positions are padding."""

TARGET_MULTIPLE = 128
"""The number of targets is padded to a multiple of this: matrix kernels are compiled for every new size."""

IGNORED = -100
"""The target of a padded position; `functional.cross_entropy` leaves it out."""


@dataclass(frozen=True)
class Batch:
    """Token ids and document numbers [rows, length], both int64.

    `positions` [num_targets] index the flattened rows where the next token is trained on; `targets` are those tokens.
    Both are padded, with zeros and `IGNORED`, to a multiple of `TARGET_MULTIPLE`.
    """

    token_ids: Tensor
    documents: Tensor
    positions: Tensor
    targets: Tensor


@dataclass
class Row:
    """A row that is being filled."""

    token_ids: list[int] = field(default_factory=list)
    documents: list[int] = field(default_factory=list)
    taught: list[bool] = field(default_factory=list)

    def add(self, token_ids: list[int], taught: list[bool]) -> None:
        """Append one conversation as a separate document."""
        number = self.documents[-1] + 1 if self.documents else 0
        self.token_ids += token_ids
        self.documents += [number] * len(token_ids)
        self.taught += taught


def encode(tokenizer: Tokenizer, conversation: Conversation) -> tuple[list[int], list[bool]]:
    """Return the tokens of a conversation, and for each token True if it is trained on.

    The text is encoded whole, as a server does, so that token boundaries don't reveal where the trained part begins.
    """
    pieces = segments(conversation)
    encoding = tokenizer.encode("".join(text for text, _ in pieces), add_special_tokens=False)
    taught_at: list[bool] = []
    for text, taught in pieces:
        taught_at += [taught] * len(text)
    return encoding.ids, [taught_at[start] for start, _ in encoding.offsets]


class Packer:
    """Packs a stream of conversations into batches of `batch_tokens` tokens."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        stream: Iterator[Conversation],
        *,
        batch_tokens: int,
        lengths: tuple[int, ...] = (256, 1024),
    ) -> None:
        self._tokenizer = tokenizer
        self._stream = stream
        self._batch_tokens = batch_tokens
        self._open: dict[int, list[Row]] = {length: [] for length in lengths}
        self._full: dict[int, list[Row]] = {length: [] for length in lengths}
        self.num_drawn = 0

    def batch(self) -> Batch:
        """Return the next batch. Conversations longer than the longest row are skipped."""
        while True:
            for length, rows in self._full.items():
                count = self._batch_tokens // length
                if len(rows) >= count:
                    self._full[length] = rows[count:]
                    return collate(rows[:count], length)
            self.num_drawn += 1
            self._place(*encode(self._tokenizer, next(self._stream)))

    def _place(self, token_ids: list[int], taught: list[bool]) -> None:
        length = next((length for length in self._open if len(token_ids) <= length), None)
        if length is None:
            return
        rows = self._open[length]
        fitting = [row for row in rows if len(row.token_ids) + len(token_ids) <= length]
        if fitting:
            row = max(fitting, key=lambda row: len(row.token_ids))
        else:
            row = Row()
            rows.append(row)
        row.add(token_ids, taught)
        if len(rows) > max(4, OPEN_ROWS * 256 // length) or len(row.token_ids) == length:
            fullest = max(rows, key=lambda row: len(row.token_ids))
            rows.remove(fullest)
            self._full[length].append(fullest)


def collate(rows: list[Row], length: int) -> Batch:
    """Pad `rows` to `length` with a separate document."""
    token_ids = torch.zeros(len(rows), length, dtype=torch.long)
    documents = torch.full((len(rows), length), -1)
    wanted = torch.zeros(len(rows), length, dtype=torch.bool)
    for i, row in enumerate(rows):
        size = len(row.token_ids)
        token_ids[i, :size] = torch.tensor(row.token_ids)
        documents[i, :size] = torch.tensor(row.documents)
        wanted[i, : size - 1] = torch.tensor(row.taught[1:])
    positions = wanted.flatten().nonzero()[:, 0]
    targets = token_ids.flatten()[positions + 1]
    padding = (0, -len(positions) % TARGET_MULTIPLE)
    return Batch(token_ids, documents, pad(positions, padding), pad(targets, padding, value=IGNORED))
