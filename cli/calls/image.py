"""Read image files for chat requests."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Final

_TYPES: Final = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif"}  # magic bytes → subtype


def read_image(path: Path) -> str:
    """Return an image file as a data URL. Raise OSError, or ValueError if it is not a supported image."""
    data = path.read_bytes()
    subtype = next((subtype for magic, subtype in _TYPES.items() if data.startswith(magic)), None)
    if subtype is None and data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        subtype = "webp"
    if subtype is None:
        raise ValueError(f"{path} is not a PNG, JPEG, WebP or GIF image")
    return f"data:image/{subtype};base64,{base64.b64encode(data).decode()}"
