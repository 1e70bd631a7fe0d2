"""Decode an image file to pixels. Files that declare more pixels than the limit are rejected before decoding."""

from __future__ import annotations

import io
from typing import Final

from PIL import Image, ImageOps
from PIL.ImageFile import ImageFile

from service.generation.errors import InvalidRequest
from service.images.data_url import Media

MEDIA_TYPES: Final = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp", "GIF": "image/gif"}
_MAX_SIDE: Final = 16_384  # pixels; resizing an image with a side of millions takes seconds and gigabytes
# A JPEG's pixels may be split into scans of ten bytes, each of which touches all pixels; usual files have one to
# twelve.
_MAX_SCANS: Final = 100
_SCAN: Final = b"\xff\xda"  # never part of the coded data
_NAMES: Final = "image/jpeg, image/png, image/webp and image/gif"

Image.MAX_IMAGE_PIXELS = None  # the library's limit only warns at first; the limit is checked below


def decode(media: Media, field: str, max_pixels: int) -> Image.Image:
    """Return the image in RGB, rotated by its EXIF orientation; of an animation the first frame.

    The bytes determine the format, regardless of the declared type. This takes up to a second: call it on a worker
    thread. Raise InvalidRequest for `field`.
    """
    try:
        image = Image.open(io.BytesIO(media.data), formats=list(MEDIA_TYPES))
    except Exception as error:  # the library raises many kinds for broken files
        declared = f" ({media.kind})" if media.kind and media.kind not in MEDIA_TYPES.values() else ""
        raise InvalidRequest(field, f"can't be read as an image{declared}; images are {_NAMES}") from error
    _check_limits(image, media, field, max_pixels)
    try:
        image.load()
        return ImageOps.exif_transpose(image).convert("RGB")
    except Exception as error:  # many kinds, as above
        kind = MEDIA_TYPES.get(image.format or "", "image/jpeg")  # MPO and others are variants of JPEG
        raise InvalidRequest(field, f"the {kind} file is broken or cut off") from error


def _check_limits(image: ImageFile, media: Media, field: str, max_pixels: int) -> None:
    """Raise InvalidRequest for an image with too many pixels, too long a side, or too many scans."""
    width, height = image.size
    if width * height > max_pixels:
        raise InvalidRequest(
            field, f"the image has {width} x {height} pixels; the limit is {max_pixels} (images.max_pixels)"
        )
    if max(width, height) > _MAX_SIDE:
        raise InvalidRequest(field, f"the image has {width} x {height} pixels; the limit per side is {_MAX_SIDE}")
    if image.format not in {"PNG", "WEBP", "GIF"} and media.data.count(_SCAN) > _MAX_SCANS:
        raise InvalidRequest(field, f"the image has more than {_MAX_SCANS} scans, which is the limit")
