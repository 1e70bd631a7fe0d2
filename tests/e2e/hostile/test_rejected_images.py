"""Images that the whole product rejects: by limits, by content, and by their URL."""

from __future__ import annotations

import base64
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.image_requests import by_url, chat, file_of, openai_content
from tests.e2e.picture_server import PictureServer
from tests.e2e.stack import Stack
from tests.engine.folders.vision_models import picture

CAT = picture(1)


def _png(width: int, height: int) -> bytes:
    """Return a small file that claims to have this size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")
    )


def _data(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


@pytest.mark.parametrize(
    ("url", "text"),
    [
        (_data(_png(60_000, 60_000)), "the image has 60000 x 60000 pixels; the limit is 33554432"),
        (_data(file_of(CAT)[:-100]), "the image/png file is broken or cut off"),
        (_data(file_of(CAT, "JPEG")[:-300]), "the image/jpeg file is broken or cut off"),
        (_data(b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml"), "can't be read as an image"),
        (_data(b""), "can't be read as an image"),
        ("data:image/png;base64,@@@@", "is not base64"),
        ("data:image/png", "is not a data URL"),
        ("https://example.com/cat.png", "images are not fetched by URL here (images.allowed_hosts)"),
        ("file:///etc/passwd", "images are not fetched by URL here (images.allowed_hosts)"),
        (_data(b"x" * 11_000_000), "the image has more than 10485760 bytes, which is the limit (images.max_bytes)"),
    ],
    ids=["bomb", "cut png", "cut jpeg", "svg", "empty", "base64", "no data url", "url", "file url", "too large"],
)
def test_invalid_images_are_rejected_by_name_and_limit(vision: Stack, url: str, text: str) -> None:
    """The response is 400 with the path of the content part, over REST."""
    answer = chat(vision, by_url(url))
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert text in error["message"]
    assert error["param"].startswith("messages.0.content.1.image_url")


def test_too_many_images_are_rejected_before_any_is_decoded(vision: Stack) -> None:
    """The limit applies to one message and to all messages together."""
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,@"}}
    one = chat(vision, [part] * 33)
    many = chat(vision, "", messages=[{"role": "user", "content": [part] * 1000}] * 10)
    for answer, number in ((one, 33), (many, 10_000)):
        assert answer.status_code == 400
        assert answer.json()["error"]["message"].endswith(f"has {number} images; the limit is 32 (images.max_images)")


def test_images_whose_tokens_exceed_the_context_are_rejected(vision: Stack) -> None:
    """Small files whose tokens exceed the context are rejected."""
    answer = chat(vision, openai_content(*[picture(3, (4, 4))] * 31))
    assert answer.status_code == 400
    assert "tokens; the limit is 511" in answer.json()["error"]["message"]


def test_images_excluded_by_settings_are_not_fetched(vision: Stack) -> None:
    """Excluded hosts, redirects, sizes, types and times get 400 with the setting's name."""
    files = {
        "/large.png": ("image/png", b"x" * 100_001),
        "/page": ("text/html", b"<html>"),
        "/cat.png": ("image/png", file_of(CAT)),
    }
    with PictureServer(files) as server:
        base = f"http://127.0.0.1:{server.port}"
        for model, url, text in (
            (
                "fetching",
                f"http://localhost:{server.port}/cat.png",
                f"the host 'localhost:{server.port}' (images.allowed_hosts)",
            ),
            ("fetching", f"{base}/redirect?to=http://localhost:{server.port}/cat.png", "(images.allowed_hosts)"),
            ("fetching", f"{base}/redirect?to=file:///etc/passwd", "the URL"),
            ("fetching", f"{base}/redirect?to=/redirect?to=/redirect?to=/redirect?to=/cat.png", "images.max_redirects"),
            ("fetching", f"{base}/large.png", "images.max_bytes"),
            ("fetching", f"{base}/endless", "images.max_bytes"),
            ("fetching", f"{base}/page", "it is not an image, but 'text/html'"),
            ("fetching", f"{base}/none", "status 404"),
            ("impatient", f"{base}/slow", "it took longer than 1 s (images.max_fetch_s)"),
            ("fetching", f"http://user:secret@127.0.0.1:{server.port}/cat.png", "without a user's name and password"),
            ("fetching", "http://127.0.0.1:1/cat.png", "its host can't be reached"),
        ):
            answer = chat(vision, by_url(url), model)
            assert answer.status_code == 400, answer.text
            assert text in answer.json()["error"]["message"]
        del server.requests[:]
        for host in ("127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "[::]"):
            answer = chat(vision, by_url(f"http://{host}:{server.port}/cat.png"), "public")
            assert answer.status_code == 400
            assert "images.allow_private_addresses" in answer.json()["error"]["message"]
        assert not server.requests


def test_a_slow_host_delays_no_other_request(vision: Stack) -> None:
    """Other images and texts are served while more requests than allowed fetch from a slow host."""
    with PictureServer({"/cat.png": ("image/png", file_of(CAT))}) as slow, ThreadPoolExecutor(12) as threads:
        waiting = [
            threads.submit(chat, vision, by_url(f"http://127.0.0.1:{slow.port}/slow"), "impatient") for _ in range(12)
        ]
        assert chat(vision, "Hello", "impatient").status_code == 200
        assert chat(vision, openai_content("Look: ", CAT), "impatient").status_code == 200
        assert {answer.result().status_code for answer in waiting} == {400}
