"""Forms with files: the same parts however the body is cut, and errors for what is no form."""

from __future__ import annotations

import httpx
import pytest

from gateway.dialects.seam.failure import Failure
from gateway.http.multipart import Multipart, PartBegin

CONTENT = b"\r\n--x\r\n-\r\n--bound\r\n\0\xff" * 3


def read(form: Multipart, pieces: list[bytes]) -> list[tuple[str, str | None, bytes]]:
    """Return the name, the file's name and the content of each part."""
    found: list[tuple[str, str | None, bytes]] = []
    for piece in pieces:
        for part in form.feed(piece):
            if isinstance(part, PartBegin):
                found.append((part.name, part.filename, b""))
            else:
                name, filename, content = found[-1]
                found[-1] = name, filename, content + part
    form.end()
    return found


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 10_000])
def test_parts_do_not_depend_on_how_the_body_is_cut(size: int) -> None:
    """What httpx encodes is read back, also content that looks like a boundary, in pieces of any size."""
    files = {"file": ('a "b".jsonl', CONTENT, "application/jsonl")}
    request = httpx.Request("POST", "http://x", data={"purpose": "batch", "empty": ""}, files=files)
    body = request.read()
    form = Multipart({"content-type": request.headers["content-type"]})
    found = read(form, [body[at : at + size] for at in range(0, len(body), size)])
    assert [(name, content) for name, _, content in found] == [("purpose", b"batch"), ("empty", b""), ("file", CONTENT)]
    assert [filename is None for _, filename, _ in found] == [True, True, False]


def test_names_need_no_quotes() -> None:
    """HttpClient of .NET sends none."""
    header = b"Content-Disposition: form-data; name=file; filename=a.jsonl; filename*=utf-8''a.jsonl"
    form = Multipart({"content-type": "multipart/form-data; boundary=b"})
    assert read(form, [b"--b\r\n" + header + b"\r\n\r\nx\r\n--b--"]) == [("file", "a.jsonl", b"x")]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"--b\r\ncontent-disposition: form-data\r\n\r\nx\r\n--b--", "has no name"),
        (b"--b\r\nx: y\r\n\r\nx\r\n--b--", "has no name"),
        (b'--b\r\ncontent-disposition: form-data; name="a"\r\n\r\nx', "before its last boundary"),
        (b"--b??", "not followed by a new line"),
        (b"--b\r\n" + b"x" * 9000, "headers of a part exceed"),
        (b"", "before its last boundary"),
    ],
)
def test_body_that_is_no_form_is_rejected(body: bytes, text: str) -> None:
    """The error says what is wrong."""
    with pytest.raises(Failure, match=text):
        read(Multipart({"content-type": "multipart/form-data; boundary=b"}), [body])


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data", "multipart/mixed; boundary=b", ""])
def test_other_content_types_are_rejected(kind: str) -> None:
    """A form has a content type of its own, with a boundary."""
    with pytest.raises(Failure, match="multipart/form-data with a boundary") as rejection:
        Multipart({"content-type": kind})
    assert rejection.value.status == 415
