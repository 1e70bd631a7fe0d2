"""The positions of images in a prompt's tokens."""

from __future__ import annotations

from collections.abc import Sequence

from service.generation.errors import InvalidRequest
from service.generation.prompts.image import ImageForm, PreprocessedImage, PromptImage


def place_images(
    token_ids: Sequence[int], images: Sequence[PreprocessedImage], form: ImageForm, field: str
) -> tuple[PromptImage, ...]:
    """Return the images at the runs of the form's token, in order. Raise InvalidRequest for `field` on a mismatch."""
    indices = [index for index, token_id in enumerate(token_ids) if token_id == form.token_id]
    starts = indices[:: form.num_tokens]
    runs = [index for start in starts for index in range(start, start + form.num_tokens)]
    if runs != indices or len(starts) != len(images):
        raise InvalidRequest(field, "the prompt's text has tokens that are reserved for images")
    return tuple(
        PromptImage(start, start + form.num_tokens, image.digest, image.pixels)
        for start, image in zip(starts, images, strict=True)
    )
