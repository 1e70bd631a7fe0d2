"""Endpoints that all replicas share in a store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from service.registry.description import Endpoint
from service.registry.endpoint_file import EndpointFormat
from service.storage.shared_text import SharedText, SharedTextLost

NAME = "endpoints"


class SharedEndpoints:
    """An `EndpointStore` in a shared text. All of it blocks."""

    def __init__(self, text: SharedText, form: EndpointFormat) -> None:
        self._text = text
        self._form = form

    def read(self) -> Sequence[Endpoint]:
        """All that were made. Raises SharedTextLost, also for a text that can't be read."""
        text = self._text.read()
        try:
            return [] if text is None else self._form.load(text)
        except ValueError as error:
            raise SharedTextLost(f"the endpoints there can't be read: {error}") from error

    def write(self, endpoints: Iterable[Endpoint]) -> None:
        """Put `endpoints` in place of those that were read or written last. Raises SharedTextLost, or Outdated."""
        self._text.write(self._form.dump(endpoints))

    def is_newer(self) -> bool:
        """Whether there are others than were read or written last. Raises SharedTextLost."""
        return self._text.is_newer()

    def close(self) -> None:
        """Disconnect."""
        self._text.close()
