"""Images as files and data URLs, and requests with them."""

from __future__ import annotations

import base64
import io
from typing import Any

import httpx
from PIL import Image

from tests.e2e.stack import Stack
from tests.waiting import GUARD_S


def file_of(image: Image.Image, kind: str = "PNG") -> bytes:
    """Return an image as a file."""
    written = io.BytesIO()
    image.save(written, kind)
    return written.getvalue()


def data_url(image: Image.Image, kind: str = "PNG") -> str:
    """Return an image as a data URL."""
    return f"data:image/{kind.lower()};base64,{base64.b64encode(file_of(image, kind)).decode()}"


def openai_content(*parts: Any) -> list[dict[str, Any]]:
    return [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "image_url", "image_url": {"url": data_url(part), "detail": "low"}}
        for part in parts
    ]


def ask(vision: Stack, path: str, body: dict[str, Any], **headers: str) -> Any:
    answer = httpx.post(f"{vision.url}{path}", json=body, headers=headers, timeout=GUARD_S)
    assert answer.status_code == 200, answer.text
    return answer.json()


def chat(vision: Stack, content: Any, model: str = "vision", **fields: Any) -> httpx.Response:
    body = {"model": model, "messages": [{"role": "user", "content": content}], "temperature": 0, "max_tokens": 8}
    return httpx.post(f"{vision.url}/v1/chat/completions", json=body | fields, timeout=GUARD_S)


def by_url(url: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": "Look: "}, {"type": "image_url", "image_url": {"url": url}}]
