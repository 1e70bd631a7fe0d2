"""Image files of every supported kind, and the errors for others."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from service.generation.errors import InvalidRequest
from service.images.data_url import Media, read_data_url
from service.images.decoding import decode

MOST = 10_000


def file_of(image: Image.Image, kind: str, **options: Any) -> bytes:
    written = io.BytesIO()
    image.save(written, kind, **options)
    return written.getvalue()


@pytest.mark.parametrize(("kind", "options"), [("PNG", {}), ("WEBP", {"lossless": True}), ("GIF", {}), ("JPEG", {})])
@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "P"])
def test_every_kind_of_file_becomes_rgb(kind: str, options: dict[str, Any], mode: str) -> None:
    """Every kind of pixels that the file can have becomes RGB."""
    image = Image.new("RGB", (7, 5), (255, 255, 255)).convert(mode)
    if kind == "JPEG" and mode in {"RGBA", "P"}:
        image = image.convert("CMYK")
    found = decode(Media(file_of(image, kind, **options), ""), "f", MOST)
    assert (found.mode, found.size) == ("RGB", (7, 5))
    assert np.asarray(found).min() > 250


def test_first_frame_of_an_animation_is_decoded() -> None:
    frames = [Image.new("RGB", (2, 2), color) for color in ((255, 0, 0), (0, 255, 0))]
    data = file_of(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert decode(Media(data, "image/gif"), "f", MOST).getpixel((0, 0)) == (255, 0, 0)


def test_exif_orientation_is_applied() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held on its side
    data = file_of(Image.new("RGB", (4, 2)), "JPEG", exif=exif)
    assert decode(Media(data, "image/jpeg"), "f", MOST).size == (2, 4)


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "GIF", "JPEG"])
def test_sizes_are_rejected_before_pixels_are_read(kind: str) -> None:
    """A file that is cut off after its header is rejected by the header alone."""
    data = file_of(Image.new("RGB", (101, 100)), kind)
    with pytest.raises(InvalidRequest, match=r"101 x 100 pixels; the limit is 10000 \(images.max_pixels\)"):
        decode(Media(data if kind == "WEBP" else data[:-20], ""), "f", MOST)


@pytest.mark.parametrize("kind", ["BMP", "TIFF", "ICO", "PPM"])
def test_other_kinds_of_files_are_rejected(kind: str) -> None:
    """Other kinds that the library could read are rejected."""
    with pytest.raises(InvalidRequest, match="images are image/jpeg, image/png, image/webp and image/gif"):
        decode(Media(file_of(Image.new("RGB", (16, 16)), kind), "image/png"), "f", MOST)


@pytest.mark.parametrize("length", [0, 1, 8, 30, 60, 100])
@pytest.mark.parametrize("kind", ["PNG", "WEBP", "GIF", "JPEG"])
def test_truncated_files_are_rejected(kind: str, length: int) -> None:
    drawn = Image.effect_noise((60, 60), 90).convert("RGB")
    with pytest.raises(InvalidRequest) as raised:
        decode(Media(file_of(drawn, kind)[:length], ""), "f", MOST)
    assert raised.value.field == "f"


@pytest.mark.parametrize(
    "url",
    [
        "data:image/png;base64,aGk=", "data:image/png;base64,aGk", "DATA:image/png;charset=x;BASE64,aGk=",
        "data:image/png,hi", "data:image/png;base64,aG\r\nk=", "data:image/png,%68%69",
    ],
)  # fmt: skip
def test_data_urls_are_read(url: str) -> None:
    """Data URLs are read with and without padding, line ends and parameters, and as percent-encoded text."""
    assert read_data_url(url, "f", 10) == Media(b"hi", "image/png")


def test_large_data_urls_are_rejected_before_decoding() -> None:
    text = base64.b64encode(b"x" * 100).decode()
    assert read_data_url(f"data:,;base64,{text}", "f", 200).data
    for url in (f"data:image/png;base64,{text}", "data:image/png," + "x" * 100):
        with pytest.raises(InvalidRequest, match="more than 90 bytes"):
            read_data_url(url, "f", 90)


def test_jpeg_with_thousands_of_scans_is_rejected_before_decoding() -> None:
    """Each scan touches all pixels and takes ten bytes of the file; the limit is far above what cameras write."""
    whole = file_of(Image.effect_noise((64, 64), 50).convert("RGB"), "JPEG", progressive=True)
    start = whole.rindex(b"\xff\xda")
    scan = whole[start:-2]
    assert decode(Media(whole, ""), "f", MOST).size == (64, 64)
    with pytest.raises(InvalidRequest, match="more than 100 scans"):
        decode(Media(whole[:start] + scan * 101 + whole[-2:], ""), "f", MOST)


def test_image_with_a_side_above_the_limit_is_rejected() -> None:
    """A column of millions of pixels is within the other limits, but takes seconds and gigabytes to scale."""
    with pytest.raises(InvalidRequest, match=r"1 x 16385 pixels; the limit per side is 16384"):
        decode(Media(file_of(Image.new("L", (1, 16_385)), "PNG"), ""), "f", 1 << 25)
