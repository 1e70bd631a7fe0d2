"""From an image's file to its pixels. Nothing is computed of a file that claims more pixels than the limit."""

from __future__ import annotations

import io
from typing import Final

from PIL import Image, ImageOps

from service.generation.errors import InvalidRequest
from service.images.data_url import Media

MEDIA_TYPES: Final = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp", "GIF": "image/gif"}
_NAMES: Final = "image/jpeg, image/png, image/webp and image/gif"

Image.MAX_IMAGE_PIXELS = None  # the library's own limit would be a warning first; ours is checked below


def decode(media: Media, field: str, max_pixels: int) -> Image.Image:
    """The image in RGB, upright as its camera held it; of an animation the first frame. Raises InvalidRequest.

    The bytes decide what the file is, whatever type it is said to have. On a worker thread: it may take a second.
    """
    try:
        image = Image.open(io.BytesIO(media.data), formats=list(MEDIA_TYPES))
    except Exception as error:  # the library raises many kinds for broken files
        said = f" ({media.kind})" if media.kind and media.kind not in MEDIA_TYPES.values() else ""
        raise InvalidRequest(field, f"can't be read as an image{said}; images are {_NAMES}") from error
    width, height = image.size
    if width * height > max_pixels:
        raise InvalidRequest(
            field, f"the image has {width} x {height} pixels; the limit is {max_pixels} (images.max_pixels)"
        )
    try:
        image.load()
        return ImageOps.exif_transpose(image).convert("RGB")
    except Exception as error:  # as above
        kind = MEDIA_TYPES[image.format or "PNG"]
        raise InvalidRequest(field, f"the {kind} file is broken or cut off") from error
