"""Images as requests have them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Final

# What files begin with.
_TYPES: Final = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif"}


def read_image(path: Path) -> str:
    """A file as a data URL. Raises ValueError for one that is no image, and OSError."""
    data = path.read_bytes()
    kind = next((kind for beginning, kind in _TYPES.items() if data.startswith(beginning)), None)
    if kind is None and data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        kind = "webp"
    if kind is None:
        raise ValueError(f"{path} is no PNG, JPEG, WebP or GIF")
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
