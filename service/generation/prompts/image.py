"""Images of prompts: their tokens, their pixels, and their positions."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class ImageForm:
    """The representation of an image in a model's prompts.

    The chat template writes `marker`, which is replaced with `text`. That has `num_tokens` consecutive tokens
    `token_id`, whose embeddings are replaced with those of the image.
    """

    marker: str
    text: str
    token_id: int
    num_tokens: int


@dataclass(frozen=True, slots=True)
class PreprocessedImage:
    """An image resized for a model's vision tower.

    `digest` is a hash of the pixels, of 32 bytes. `pixels` [channels, height, width] are in the range 0 to 255.
    """

    digest: bytes
    pixels: npt.NDArray[np.uint8] = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class PromptImage:
    """An image at the tokens `start` up to, not including, `end` of its prompt.

    `digest` is a hash of 32 bytes: images with equal ones are treated as the same. `pixels` [channels, height, width]
    have the size that the vision tower takes, in the range 0 to 255.
    """

    start: int
    end: int
    digest: bytes
    pixels: npt.NDArray[np.uint8] = field(repr=False, compare=False)

    def overlaps(self, start: int, end: int) -> bool:
        """Return whether any of its tokens is at `start` or after, and before `end`."""
        return self.start < end and start < self.end
