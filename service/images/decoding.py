"""Decode an image file to pixels. Files that claim more pixels than the limit are rejected unread."""

from __future__ import annotations

import io
from typing import Final

from PIL import Image, ImageOps
from PIL.ImageFile import ImageFile

from service.generation.errors import InvalidRequest
from service.images.data_url import Media

MEDIA_TYPES: Final = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp", "GIF": "image/gif"}
_MAX_SIDE: Final = 16_384  # pixels; a row or a column of millions is scaled for seconds, and takes gigabytes
# A JPEG's pixels may come in scans of ten bytes each, and each goes over all of them: usual files have one to twelve.
_MAX_SCANS: Final = 100
_SCAN: Final = b"\xff\xda"  # which no coded data holds
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
    _check_form(image, media, field, max_pixels)
    try:
        image.load()
        return ImageOps.exif_transpose(image).convert("RGB")
    except Exception as error:  # as above
        kind = MEDIA_TYPES.get(image.format or "", "image/jpeg")  # of which some kinds have names of their own
        raise InvalidRequest(field, f"the {kind} file is broken or cut off") from error


def _check_form(image: ImageFile, media: Media, field: str, max_pixels: int) -> None:
    width, height = image.size
    if width * height > max_pixels:
        raise InvalidRequest(
            field, f"the image has {width} x {height} pixels; the limit is {max_pixels} (images.max_pixels)"
        )
    if max(width, height) > _MAX_SIDE:
        raise InvalidRequest(field, f"the image has {width} x {height} pixels; the limit of a side is {_MAX_SIDE}")
    if image.format not in {"PNG", "WEBP", "GIF"} and media.data.count(_SCAN) > _MAX_SCANS:
        raise InvalidRequest(field, f"the image comes in more than {_MAX_SCANS} scans, which is the limit")
