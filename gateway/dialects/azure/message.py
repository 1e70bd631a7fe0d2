"""Messages of the Azure AI model inference API.

Its documentation has a part's text, or its image's URL, in `content`. Its clients send parts in OpenAI's form. Both
forms are accepted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from gateway.dialects.openai_family.chat.message import ChatMessage
from gateway.dialects.openai_family.chat.part import Image, ImagePart, RefusalPart, TextPart

_PART: Final = re.compile(r"^messages\.(\d+)\.content\.(\d+)\.(?:text|image_url(?:\.url)?)$")
_SCHEME: Final = re.compile(r"^(?:data:|[a-z][a-z0-9+.-]*://)", re.IGNORECASE)
_MISSING: Final = "Object missing required field `content`"  # the text of the decoder's error


class ContentTextPart(TextPart, tag_field="type", tag="text", kw_only=True):
    """A piece of text."""

    text: str | msgspec.UnsetType = msgspec.UNSET  # type: ignore[assignment]  # never once it is made
    content: str | None = None

    def __post_init__(self) -> None:
        """Copy the text to the field that all parts of the family have."""
        if self.content is not None:
            self.text = self.content
        elif self.text is msgspec.UNSET:
            raise ValueError(_MISSING)


class ContentImagePart(ImagePart, tag_field="type", tag="image", kw_only=True):
    """An image: its URL, or its bytes in base64."""

    content: str | None = None
    detail: Literal["auto", "low", "high"] | None = None
    image_url: Image = msgspec.field(default_factory=lambda: Image(""))

    def __post_init__(self) -> None:
        """Copy the URL to the field that all parts of the family have."""
        if self.content is not None:
            url = self.content if _SCHEME.match(self.content) else f"data:;base64,{self.content}"
            self.image_url = Image(url, self.detail)
        elif not self.image_url.url:
            raise ValueError(_MISSING)


class ContentImageUrlPart(ContentImagePart, tag_field="type", tag="image_url", kw_only=True):
    """An image under the alternative type name `image_url`."""


_AzurePart: TypeAlias = ContentTextPart | ContentImagePart | ContentImageUrlPart | RefusalPart


class AzureMessage(ChatMessage, kw_only=True):
    """One turn."""

    content: str | list[_AzurePart] | None = None  # type: ignore[assignment]  # each is one of the family's


def part_name(messages: Sequence[AzureMessage], path: str) -> str | None:
    """Return the caller's name of the dotted `path` of a part's text or image, if it was sent as `content`."""
    if (match := _PART.match(path)) is None:
        return None
    content = messages[int(match[1])].content
    if not isinstance(content, list) or getattr(content[int(match[2])], "content", None) is None:
        return None
    return f"messages.{match[1]}.content.{match[2]}.content"
