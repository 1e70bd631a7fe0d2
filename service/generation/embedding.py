"""Texts to embed, and their vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from service.generation.conversation import RawText, RawTokens

TokenIds: TypeAlias = npt.NDArray[np.int64]  # [tokens]
Vector: TypeAlias = npt.NDArray[np.float32]  # [dimensions]


Purpose: TypeAlias = Literal["", "query", "document"]  # what a vector is for; empty is not told


@dataclass(frozen=True, slots=True)
class TextsToEmbed:
    """What a caller asks vectors of. `dimensions` None is the model's own.

    `instruction` stands before each text; where it is empty, what the model has for the `purpose`.
    """

    model: str
    inputs: Sequence[RawText | RawTokens]
    deployment: str = ""
    instruction: str = ""
    dimensions: int | None = None
    priority: int = 0
    truncates: bool = False
    purpose: Purpose = ""


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """Texts, as tokens, to make vectors of.

    `deadline` is a `time.monotonic()` instant in seconds. `caller_id` is the key that the request counts for in the
    queue, `weight` that key's part of what several compete for, above 0. Among requests of one key a lower `priority`
    value is served first. Where inputs are pairs of texts, `second_starts` has for each the place of its second text's
    first token; 0 for an input that is one text.
    """

    request_id: str
    inputs: Sequence[TokenIds]
    deadline: float | None = None
    caller_id: str = ""
    weight: float = 1.0
    priority: int = 0
    second_starts: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class EmbeddingOutput:
    """The vectors of a request, in the order of its inputs, and instants of `time.monotonic()`.

    `compute_s` is its share of the batches that it was in, by tokens.
    """

    vectors: Sequence[Vector]
    arrived: float
    scheduled: float  # when the first batch with one of its inputs began
    finished: float
    compute_s: float = 0.0
