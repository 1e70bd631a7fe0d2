"""The lines of a new batch: checked, and converted to what is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from google.protobuf.message import Message
from sluice.v1 import batch_pb2

from service.auth.errors import ScopeMissing
from service.calls.call import current_caller
from service.calls.errors import InvalidMessage
from service.contract.batches.batch import Line, error_bytes
from service.generation.caller import Scope
from service.generation.errors import InvalidRequest
from service.storage.responses.batch_port import NewLine

_MAX_ID: Final = 256  # characters
_WORK_OF_TURN: Final = 32 * 1024  # bytes of lines: a few milliseconds
_WORK_OF_LINE: Final = 4096  # the cost of any line, in the same unit
_SCOPES: Final = {"embedding": Scope.EMBED}  # all others need GENERATE
_FORBIDDEN: Final = ("background", "store", "conversation")  # of responses: a line has no effects but its result

Describe = Callable[[Exception], bytes]
"""Return an error in the form in which it is stored."""


class NewLines:
    """Converts the lines of one batch in order. What is wrong with a request is its result."""

    def __init__(self, check: Callable[[Message], None], describe: Describe) -> None:
        """`check` raises for messages that violate a rule of the contract."""
        self._check = check
        self._describe = describe
        self._custom_ids: set[str] = set()
        self.num_lines = 0

    async def convert_all(self, lines: Iterable[Line]) -> list[NewLine]:
        """Return the lines as they are stored, with turns of the event loop in between. Raise what `convert` raises."""
        converted: list[NewLine] = []
        work = 0
        for line in lines:
            converted.append(self.convert(line))
            work += _WORK_OF_LINE + len(converted[-1].request)
            if work >= _WORK_OF_TURN:
                work = 0
                await asyncio.sleep(0)
        return converted

    def convert(self, line: Line) -> NewLine:
        """Return a line as it is stored. Raise InvalidRequest if it has no id or no request, or ScopeMissing."""
        path = f"requests[{self.num_lines}]"
        if not 0 < len(line.custom_id) <= _MAX_ID:
            raise InvalidRequest(f"{path}.custom_id", f"must have 1 to {_MAX_ID} characters")
        if line.custom_id in self._custom_ids:
            raise InvalidRequest(f"{path}.custom_id", f"{line.custom_id!r} is the id of an earlier request")
        name = line.WhichOneof("request")
        if name is None:
            raise InvalidRequest(path, "has no request")
        self._custom_ids.add(line.custom_id)
        self.num_lines += 1
        return NewLine(line.SerializeToString(deterministic=True), self._error(line, name))

    def _error(self, line: Line, name: str) -> bytes:
        """Return the error of a request that can't be answered, or nothing. Raise ScopeMissing."""
        if name == "rejected":
            error: batch_pb2.BatchError = line.rejected
            return error_bytes(error.reason, error.message, error.field)
        scope = _SCOPES.get(name, Scope.GENERATE)
        if scope not in current_caller().scopes:
            raise ScopeMissing([scope])
        try:
            self._check(getattr(line, name))
            if name == "response":
                for field in _FORBIDDEN:
                    if getattr(line.response, field):
                        raise InvalidRequest(field, "is not possible in a batch")  # noqa: TRY301  described below
        except (InvalidMessage, InvalidRequest) as error:
            return self._describe(error)
        return b""
