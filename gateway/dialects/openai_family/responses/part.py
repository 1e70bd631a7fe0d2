"""Parts of a response's items, and their mapping to the contract.

Fields that are not read here are ignored, since parts of an earlier answer may have them.
"""

from __future__ import annotations

import base64
from typing import Any, Final, Literal, TypeAlias

import msgspec
from sluice.v1 import content_pb2

from gateway.dialects.seam.failure import Failure, Reason

_DETAILS: Final = {
    "auto": content_pb2.IMAGE_DETAIL_AUTO,
    "low": content_pb2.IMAGE_DETAIL_LOW,
    "high": content_pb2.IMAGE_DETAIL_HIGH,
    "original": content_pb2.IMAGE_DETAIL_HIGH,
}
_DETAIL_NAMES: Final = {detail: name for name, detail in _DETAILS.items() if name != "original"}


class InputTextPart(msgspec.Struct, tag_field="type", tag="input_text"):
    """Text of the input."""

    text: str


class OutputTextPart(msgspec.Struct, tag_field="type", tag="output_text"):
    """Text of the model."""

    text: str


class OutputRefusalPart(msgspec.Struct, tag_field="type", tag="refusal"):
    """The model's refusal to answer."""

    refusal: str


class ReasoningTextPart(msgspec.Struct, tag_field="type", tag="reasoning_text"):
    """Reasoning of the model."""

    text: str


class SummaryTextPart(msgspec.Struct, tag_field="type", tag="summary_text"):
    """A summary of the model's reasoning."""

    text: str


class InputImagePart(msgspec.Struct, tag_field="type", tag="input_image"):
    """An image, by its URL."""

    image_url: str | None = None
    file_id: str | None = None
    detail: Literal["auto", "low", "high", "original"] | None = None


class InputFilePart(msgspec.Struct, tag_field="type", tag="input_file"):
    """A document, by its content, its URL or its id."""

    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None
    filename: str | None = None
    detail: Literal["auto", "low", "high"] | None = None


TextualPart: TypeAlias = InputTextPart | OutputTextPart | OutputRefusalPart | ReasoningTextPart | SummaryTextPart
Part: TypeAlias = (
    InputTextPart | OutputTextPart | OutputRefusalPart | ReasoningTextPart | InputImagePart | InputFilePart
)


def text_of(part: Part | SummaryTextPart) -> str:
    """Return the text of a text part."""
    if isinstance(part, OutputRefusalPart):
        return part.refusal
    return part.text if isinstance(part, TextualPart) else ""


def to_part(part: str | Part, path: str) -> content_pb2.ContentPart:
    """Return the contract's part of a message. Raise Failure naming `path` for unsupported content."""
    match part:
        case str():
            return content_pb2.ContentPart(text=part)
        case InputImagePart():
            return content_pb2.ContentPart(image_url=_to_image(part, path))
        case InputFilePart():
            return content_pb2.ContentPart(file=_to_file(part, path))
        case ReasoningTextPart():
            raise Failure.of_field(f"{path}.type", "reasoning_text is only allowed in items of type reasoning")
        case _:
            return content_pb2.ContentPart(text=text_of(part))


def _to_image(part: InputImagePart, path: str) -> content_pb2.ImageUrl:
    if part.image_url is None:
        raise Failure.of_field(f"{path}.image_url", "required, but missing", Reason.MISSING_FIELD)
    image = content_pb2.ImageUrl(url=part.image_url)
    if part.detail is not None:
        image.detail = _DETAILS[part.detail]
    return image


def _to_file(part: InputFilePart, path: str) -> content_pb2.InputFile:
    file = content_pb2.InputFile(filename=part.filename or "")
    if (url := part.file_data or part.file_url) is not None:
        file.url = url
    elif part.file_id is not None:
        file.file_id = part.file_id
    else:
        raise Failure.of_field(f"{path}.file_data", "required, but missing", Reason.MISSING_FIELD)
    return file


def image_answer(part: content_pb2.ContentPart) -> dict[str, Any]:
    """Return a part with an image as callers send it; an image that was sent as bytes has a data URL."""
    if part.HasField("image"):
        image = part.image
        url = f"data:{image.media_type or 'image/png'};base64,{base64.b64encode(image.data).decode()}"
        return {"type": "input_image", "image_url": url, "detail": _DETAIL_NAMES.get(image.detail, "auto")}
    return {
        "type": "input_image",
        "image_url": part.image_url.url,
        "detail": _DETAIL_NAMES.get(part.image_url.detail, "auto"),
    }
