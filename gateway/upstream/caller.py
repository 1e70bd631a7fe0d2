"""The caller of a request: its id, its credential, and what its headers ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.http.cost import requests_cost

_BEARER = "bearer "
_KEY_HEADERS = ("api-key", "x-api-key")


@dataclass(frozen=True, slots=True)
class Caller:
    """The origin of a call: the request's id, and the client's credential as in the header `authorization`.

    `scope` is an additional scope that the call requires, for pages that the gateway itself serves. `timeout_s` is the
    client's timeout if it is shorter than the RPC's deadline. `wants_cost` requests the cost of the answer. `host` and
    `origin` are the request's headers, empty if missing.
    """

    request_id: str
    authorization: str | None = None
    scope: str = ""
    timeout_s: float | None = None
    wants_cost: bool = False
    host: str = ""
    origin: str = ""

    @classmethod
    def from_headers(cls, request_id: str, headers: Mapping[str, str]) -> Caller:
        """Return the caller of a request by its headers, whose names are in lower case.

        A key in `api-key`, as Azure's clients send it, or in `x-api-key` is used as bearer token if there is none.
        """
        authorization = headers.get("authorization")
        if authorization is None or authorization[: len(_BEARER)].lower() != _BEARER:
            key = next((headers[name] for name in _KEY_HEADERS if name in headers), None)
            authorization = authorization if key is None else f"Bearer {key}"
        return cls(
            request_id,
            authorization,
            wants_cost=requests_cost(headers),
            host=headers.get("host", ""),
            origin=headers.get("origin", ""),
        )
