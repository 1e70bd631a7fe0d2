"""Convert content blocks of Anthropic's messages to parts of the contract."""

from __future__ import annotations

from typing import assert_never

from sluice.v1 import content_pb2

from gateway.dialects.anthropic.block import (
    Base64Source,
    BrowserStateBlock,
    ContentSource,
    DocumentBlock,
    FileSource,
    ImageBlock,
    PlainTextSource,
    ResultBlock,
    SearchResultBlock,
    TextBlock,
    ToolReferenceBlock,
    UrlSource,
)


def to_part(block: ResultBlock) -> content_pb2.ContentPart:
    """Return a content block as a part of the contract. Raise Failure for a kind that is not supported."""
    match block:
        case TextBlock(text):
            return content_pb2.ContentPart(text=text)
        case ImageBlock(FileSource(file_id)):
            return content_pb2.ContentPart(file=content_pb2.InputFile(file_id=file_id))
        case ImageBlock(source):
            assert not isinstance(source, FileSource)  # noqa: S101  the case before
            return content_pb2.ContentPart(image_url=content_pb2.ImageUrl(url=_to_url(source)))
        case SearchResultBlock(source, title, content):
            texts = [title, source, *(each.text for each in content)]
            return content_pb2.ContentPart(text="\n".join(texts))
        case DocumentBlock():
            return _to_document(block)
        case ToolReferenceBlock() | BrowserStateBlock():
            return content_pb2.ContentPart(text=block.as_text())
        case _:
            assert_never(block)


def _to_document(block: DocumentBlock) -> content_pb2.ContentPart:
    """Return a document's text preceded by title and context, or its file."""
    heads = [each for each in (block.title, block.context) if each]
    match block.source:
        case PlainTextSource(text):
            return content_pb2.ContentPart(text="\n".join([*heads, text]))
        case ContentSource(str(text)):
            return content_pb2.ContentPart(text="\n".join([*heads, text]))
        case ContentSource(content):
            for each in content:
                if isinstance(each, ImageBlock):
                    return to_part(each)  # the service rejects it if the model takes no images
            texts = [each.text for each in content if isinstance(each, TextBlock)]
            return content_pb2.ContentPart(text="\n".join([*heads, *texts]))
        case FileSource(file_id):
            return content_pb2.ContentPart(file=content_pb2.InputFile(file_id=file_id, filename=block.title or ""))
        case Base64Source() | UrlSource() as source:
            file = content_pb2.InputFile(url=_to_url(source), filename=block.title or "")
            return content_pb2.ContentPart(file=file)
        case _:
            assert_never(block.source)


def _to_url(source: Base64Source | UrlSource) -> str:
    return source.url if isinstance(source, UrlSource) else f"data:{source.media_type};base64,{source.data}"
