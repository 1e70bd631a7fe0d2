"""A document that replicas share: a value, its text in a file or in Redis, and the format between them."""

from __future__ import annotations

from typing import Protocol, TypeVar

from service.storage.shared_text import Outdated

Document = TypeVar("Document")


class TextStore(Protocol):
    """A text that several processes read and write. Its methods block. A method that raises changes nothing."""

    def read(self) -> str | None:
        """Return the newest text, or None if there is none. Raise OSError or SharedTextLost."""

    def write(self, text: str) -> None:
        """Replace the text that was read or written last. Raise OSError, SharedTextLost, or Outdated."""

    def is_newer(self) -> bool:
        """Return whether another process has changed the text. Raise OSError or SharedTextLost."""

    def num_behind(self) -> int:
        """Record that this process knows the text read or written last, and return how many others don't know it.

        A process that has recorded nothing for `RECORD_S` seconds doesn't count. Raise OSError or SharedTextLost.
        """

    def unreadable(self, reason: str) -> Exception:
        """The error for a text that can't be parsed: an OSError or SharedTextLost."""

    def close(self) -> None:
        """Release the connection."""


class Format(Protocol[Document]):
    """The text form of a document."""

    def empty(self) -> Document:
        """The document of a store that has none yet."""

    def parse(self, text: str) -> Document:
        """Return the document of a text. Raise ValueError."""

    def dump(self, document: Document) -> str:
        """Return the text of a document."""


class DocumentStore(Protocol[Document]):
    """A document, shared or not. Its methods may block. A method that raises changes nothing."""

    is_shared: bool  # True if other processes may change the document

    def read(self) -> Document:
        """Return the newest document. Raise OSError or SharedTextLost, also for a text that can't be parsed."""

    def write(self, document: Document) -> None:
        """Replace the document that was read or written last. Raise OSError or SharedTextLost, or Outdated."""

    def is_newer(self) -> bool:
        """Return whether the document isn't the one that was read or written last. Raise OSError or SharedTextLost."""

    def num_behind(self) -> int:
        """Record that this process knows the document read or written last, and return how many others don't.

        Raise OSError or SharedTextLost.
        """

    def close(self) -> None:
        """Release the connection."""


class MemoryDocument(DocumentStore[Document]):
    """A document in the memory of this process."""

    is_shared = False

    def __init__(self, document: Document) -> None:
        self._document = document

    def read(self) -> Document:
        return self._document

    def write(self, document: Document) -> None:
        self._document = document

    def is_newer(self) -> bool:
        return False

    def num_behind(self) -> int:
        return 0

    def close(self) -> None:
        """Do nothing: no connection is open."""


class SharedDocument(DocumentStore[Document]):
    """A document in a text store. A text that can't be parsed is never overwritten."""

    is_shared = True

    def __init__(self, text: TextStore, form: Format[Document]) -> None:
        self._text = text
        self._form = form
        self._is_parsed = True

    def read(self) -> Document:
        self._is_parsed = False
        text = self._text.read()
        try:
            document = self._form.empty() if text is None else self._form.parse(text)
        except ValueError as error:
            raise self._text.unreadable(" ".join(str(error).split())) from error
        self._is_parsed = True
        return document

    def write(self, document: Document) -> None:
        if not self._is_parsed:
            raise Outdated
        self._text.write(self._form.dump(document))

    def is_newer(self) -> bool:
        return not self._is_parsed or self._text.is_newer()

    def num_behind(self) -> int:
        return self._text.num_behind()

    def close(self) -> None:
        self._text.close()
