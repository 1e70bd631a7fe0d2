"""Parts of messages in OpenAI's family, and their mapping to the contract.

Frameworks carry over parts of other APIs: those of OpenAI's responses, and reasoning, which Mistral's API and
Databricks have among the content.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec
from sluice.v1 import content_pb2

from gateway.dialects.seam.failure import Failure, Reason

_DETAILS: Final = {
    "auto": content_pb2.IMAGE_DETAIL_AUTO,
    "low": content_pb2.IMAGE_DETAIL_LOW,
    "high": content_pb2.IMAGE_DETAIL_HIGH,
}


class TextPart(msgspec.Struct, tag_field="type", tag="text"):
    """A piece of text."""

    text: str


class InputTextPart(TextPart, tag_field="type", tag="input_text"):
    """A piece of text, as the input of OpenAI's responses has it."""


class OutputTextPart(TextPart, tag_field="type", tag="output_text"):
    """A piece of text, as the output of OpenAI's responses has it."""


class RefusalPart(msgspec.Struct, tag_field="type", tag="refusal"):
    """An assistant's refusal to answer."""

    refusal: str


class Image(msgspec.Struct):
    """The URL of an image."""

    url: str
    detail: Literal["auto", "low", "high"] | None = None


class ImagePart(msgspec.Struct, tag_field="type", tag="image_url"):
    """An image."""

    image_url: Image


class File(msgspec.Struct):
    """A document: its content, or its id."""

    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class FilePart(msgspec.Struct, tag_field="type", tag="file"):
    """A document."""

    file: File


class AnyText(msgspec.Struct):
    """A piece of text within reasoning, whatever its type."""

    text: str = ""


class ThinkingPart(msgspec.Struct, tag_field="type", tag="thinking"):
    """The assistant's reasoning, as Mistral's API has it."""

    thinking: str | list[AnyText] = ""

    @property
    def reasoning(self) -> str:
        """The text."""
        return self.thinking if isinstance(self.thinking, str) else "".join(each.text for each in self.thinking)


class ReasoningPart(msgspec.Struct, tag_field="type", tag="reasoning"):
    """The assistant's reasoning: its text, or a summary, as Databricks has it."""

    text: str | None = None
    summary: list[AnyText] | None = None

    @property
    def reasoning(self) -> str:
        """The text."""
        return self.text or "".join(each.text for each in self.summary or ())


SentPart: TypeAlias = TextPart | InputTextPart | OutputTextPart | RefusalPart | ImagePart | FilePart
Part: TypeAlias = SentPart | ThinkingPart | ReasoningPart


def to_part(part: SentPart, path: str) -> content_pb2.ContentPart:
    """Return the contract's part. Raise Failure for a file without content."""
    match part:
        case TextPart():
            return content_pb2.ContentPart(text=part.text)
        case RefusalPart():
            return content_pb2.ContentPart(text=part.refusal)
        case FilePart():
            return content_pb2.ContentPart(file=_to_file(part.file, f"{path}.file"))
        case _:
            image = content_pb2.ImageUrl(url=part.image_url.url)
            if part.image_url.detail is not None:
                image.detail = _DETAILS[part.image_url.detail]
            return content_pb2.ContentPart(image_url=image)


def _to_file(file: File, path: str) -> content_pb2.InputFile:
    if file.file_data is not None:
        return content_pb2.InputFile(url=file.file_data, filename=file.filename or "")
    if file.file_id is None:
        raise Failure.of_field(f"{path}.file_data", "required, but missing", Reason.MISSING_FIELD)
    return content_pb2.InputFile(file_id=file.file_id, filename=file.filename or "")
