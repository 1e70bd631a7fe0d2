"""What all requests of the Azure AI model inference API have beside their body.

The query's `api-version`, and the headers: what to do with parameters that the API doesn't define, and which deployment
is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from typing import Final, TypeVar

import msgspec

from gateway.dialects.azure.known_fields import known_fields
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.json_body import decode

BodyT = TypeVar("BodyT", bound=msgspec.Struct)

_VERSION: Final = re.compile(r"\d{4}-\d{2}-\d{2}(-preview)?")
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def check_version(arrival: HttpRequest) -> None:
    """Raise Failure for a version of the API that can't be one; all of them, and none, are served alike."""
    version = arrival.query.get("api-version", "2024-05-01-preview")
    if _VERSION.fullmatch(version) is None:
        text = "must have the form YYYY-MM-DD or YYYY-MM-DD-preview"
        raise Failure.of_field("api-version", text, Reason.INVALID_TYPE)


def read_body(arrival: HttpRequest, decoder: msgspec.json.Decoder[BodyT], named: AbstractSet[str]) -> BodyT:
    """The body, by the header `extra-parameters`. `named` are the parameters that the API names.

    `error`, the default, refuses all others; `ignore` and `drop` leave them out, and what is unknown in tools, formats
    and messages too; `pass-through` takes every parameter that the decoder's type has. Raises Failure.
    """
    mode = arrival.headers.get("extra-parameters", "error").strip().lower()
    if mode not in {"error", "ignore", "drop", "pass-through"}:
        text = "must be error, ignore, drop or pass-through"
        raise Failure.of_field("extra-parameters", text, Reason.INVALID_TYPE)
    if mode in {"ignore", "drop"}:
        fields = decode(arrival.body, _FIELDS)
        kept = {name: raw for name, raw in fields.items() if name in named}
        return decode(known_fields(msgspec.json.encode(kept), decoder.type), decoder)
    body = decode(arrival.body, decoder)
    if mode == "error":
        for name in body.__struct_fields__:
            if name not in named and getattr(body, name) is not None:
                text = "not a parameter of this API; to use it, send the header extra-parameters: pass-through"
                raise Failure.of_field(name, text, Reason.UNKNOWN_FIELD)
    return body


def deployment(arrival: HttpRequest) -> str:
    """The deployment that is asked for, or empty."""
    return arrival.headers.get("azureml-model-deployment", "").strip()
