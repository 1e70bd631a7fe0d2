"""Read images for requests."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Final

# The magic bytes of image files.
_TYPES: Final = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif"}


def read_image(path: Path) -> str:
    """Return a file as a data URL. Raise ValueError if it is not a supported image, or OSError."""
    data = path.read_bytes()
    kind = next((kind for beginning, kind in _TYPES.items() if data.startswith(beginning)), None)
    if kind is None and data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        kind = "webp"
    if kind is None:
        raise ValueError(f"{path} is not a PNG, JPEG, WebP or GIF image")
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
