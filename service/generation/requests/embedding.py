"""Texts to embed, and their vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from service.generation.prompts.conversation import RawText, RawTokens

TokenIds: TypeAlias = npt.NDArray[np.int64]  # [tokens]
Vector: TypeAlias = npt.NDArray[np.float32]  # [dimensions]


Purpose: TypeAlias = Literal["", "query", "document"]  # the use of a vector; empty if unknown


@dataclass(frozen=True, slots=True)
class TextsToEmbed:
    """A request for the vectors of texts. `dimensions` None is the model's default.

    `instruction` precedes each text; if it is empty, the model's own instruction for the `purpose` does.
    """

    model: str
    inputs: Sequence[RawText | RawTokens]
    deployment: str = ""
    instruction: str = ""
    dimensions: int | None = None
    priority: int = 0
    truncates: bool = False
    purpose: Purpose = ""
    keep_s: float | None = None  # how long the model stays in memory without requests; None: the default


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """Inputs, as tokens, whose vectors are to be computed."""

    request_id: str
    inputs: Sequence[TokenIds]
    deadline: float | None = None  # time.monotonic()
    caller_id: str = ""  # the key that the request is queued under
    weight: float = 1.0  # of the key's share of the engine, > 0
    priority: int = 0  # among requests of one key, lower values first
    is_batch: bool = False  # whether it yields to all requests that are not of batches
    second_starts: Sequence[int] = ()  # by input: index of a pair's second text, 0 if there is none


@dataclass(frozen=True, slots=True)
class EmbeddingOutput:
    """The vectors of a request, in the order of its inputs, and instants of `time.monotonic()`.

    `compute_s` is its share of the time of its batches, by tokens.
    """

    vectors: Sequence[Vector]
    arrived: float
    scheduled: float  # when the first batch with one of its inputs began
    finished: float
    compute_s: float = 0.0
