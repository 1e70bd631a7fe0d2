"""The file that keeps endpoints over a restart.

Owns its format, the JSON form of sluice.v1.ListEndpointsResponse, and the way it is written: whole, beside the old one,
then put in its place, so that a reader finds the old state or the new one whenever the writer dies. One process writes
it at a time; in that, one thread at a time. It knows neither models nor traffic.
"""

from __future__ import annotations

import glob
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import protovalidate
from google.protobuf import json_format
from sluice.v1 import endpoint_pb2

from service.generation.errors import InvalidRequest
from service.servicers.traffic import check_shares


class EndpointFileError(Exception):
    """The file can't be used; the text is one line with its path."""


class EndpointFile:
    """One such file. It need not be there; its folder must."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> list[endpoint_pb2.Endpoint]:
        """The endpoints it holds, in its order; none without a file. Removes what a writer that died left beside it.

        Raises EndpointFileError.
        """
        if not self._path.parent.is_dir():
            raise EndpointFileError(f"{self._path}: the folder does not exist")
        for left in self._path.parent.glob(f".{glob.escape(self._path.name)}.*.tmp"):
            left.unlink(missing_ok=True)
        try:
            content = _content(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return []
        except (OSError, ValueError, json_format.ParseError) as error:
            reason = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())
            raise EndpointFileError(f"{self._path}: {reason}") from error
        names = [endpoint.name for endpoint in content.endpoints]
        for endpoint in content.endpoints:
            if names.count(endpoint.name) > 1:
                raise EndpointFileError(f"{self._path}: the endpoint {endpoint.name!r} stands twice")
            self._check(endpoint)
        return list(content.endpoints)

    def _check(self, endpoint: endpoint_pb2.Endpoint) -> None:
        """What holds for an endpoint that is created holds for one that was written by hand."""
        request = endpoint_pb2.CreateEndpointRequest(name=endpoint.name, entities=endpoint.entities)
        try:
            protovalidate.validate(request)
            check_shares(endpoint.entities)
        except (protovalidate.ValidationError, InvalidRequest) as error:
            reason = str(error)
            if isinstance(error, protovalidate.ValidationError):
                reason = "; ".join(violation.proto.message for violation in error.violations)
            raise EndpointFileError(f"{self._path}: the endpoint {endpoint.name!r}: {reason}") from error

    def write(self, endpoints: Iterable[endpoint_pb2.Endpoint]) -> None:
        """Put `endpoints` in place of what it holds; they are on the disk when this returns, which takes its time.

        Raises OSError; then it holds what it held.
        """
        content = endpoint_pb2.ListEndpointsResponse(endpoints=endpoints)
        text = json_format.MessageToJson(content, preserving_proto_field_name=True)
        folder = self._path.parent
        handle, new = tempfile.mkstemp(prefix=f".{self._path.name}.", suffix=".tmp", dir=folder)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
            Path(new).replace(self._path)
        except BaseException:
            Path(new).unlink(missing_ok=True)
            raise
        directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)  # the name itself is on the disk
        finally:
            os.close(directory)


def _content(text: str) -> endpoint_pb2.ListEndpointsResponse:
    """Raises ValueError or ParseError."""
    try:
        values = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(values, dict):
        raise ValueError("it must hold a JSON object")  # noqa: TRY004  as for JSON that can't be read
    return json_format.ParseDict(values, endpoint_pb2.ListEndpointsResponse())
