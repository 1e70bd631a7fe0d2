"""Images of prompts: their tokens, their pixels, and their positions."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class ImageForm:
    """How prompts of a model show an image.

    Its chat template writes `marker`, in whose place stands `text`; that has `num_tokens` tokens of `token_id` in a
    row, in whose places the model has what it sees.
    """

    marker: str
    text: str
    token_id: int
    num_tokens: int


@dataclass(frozen=True, slots=True)
class SeenImage:
    """What a model sees of an image.

    `digest` names the pixels, as a hash of 32 bytes. `pixels` [channels, height, width] are in the range 0 to 255.
    """

    digest: bytes
    pixels: npt.NDArray[np.uint8] = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class PromptImage:
    """An image, and where in its prompt it stands: at the tokens `start` up to, not including, `end`.

    `digest` names what is seen, as a hash of 32 bytes: equal ones are taken for the same image. `pixels`
    [channels, height, width] have the size that the model sees, in the range 0 to 255.
    """

    start: int
    end: int
    digest: bytes
    pixels: npt.NDArray[np.uint8] = field(repr=False, compare=False)

    def overlaps(self, start: int, end: int) -> bool:
        """Whether any of its tokens is at `start` or after, and before `end`."""
        return self.start < end and start < self.end
