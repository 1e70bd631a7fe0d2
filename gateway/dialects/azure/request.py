"""The query parameter and headers of all requests of the Azure AI model inference API.

The query has `api-version`; the headers choose the deployment, and the handling of parameters that the API doesn't
define.
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


def check_version(http_request: HttpRequest) -> None:
    """Raise Failure for a malformed version. The version has no other effect and may be omitted."""
    version = http_request.query.get("api-version", "2024-05-01-preview")
    if _VERSION.fullmatch(version) is None:
        text = "must have the form YYYY-MM-DD or YYYY-MM-DD-preview"
        raise Failure.of_field("api-version", text, Reason.INVALID_TYPE)


def read_body(http_request: HttpRequest, decoder: msgspec.json.Decoder[BodyT], named: AbstractSet[str]) -> BodyT:
    """Return the body, parsed according to the header `extra-parameters`. `named` are the API's own parameters.

    `error`, the default, rejects all others; `ignore` and `drop` remove them, and also unknown fields in tools, formats
    and messages; `pass-through` accepts every parameter that the decoder's type has. Raise Failure.
    """
    mode = http_request.headers.get("extra-parameters", "error").strip().lower()
    if mode not in {"error", "ignore", "drop", "pass-through"}:
        text = "must be error, ignore, drop or pass-through"
        raise Failure.of_field("extra-parameters", text, Reason.INVALID_TYPE)
    if mode in {"ignore", "drop"}:
        fields = decode(http_request.body, _FIELDS)
        kept = {name: raw for name, raw in fields.items() if name in named}
        return decode(known_fields(msgspec.json.encode(kept), decoder.type), decoder)
    body = decode(http_request.body, decoder)
    if mode == "error":
        for name in body.__struct_fields__:
            if name not in named and getattr(body, name) is not None:
                text = "not a parameter of this API; to use it, send the header extra-parameters: pass-through"
                raise Failure.of_field(name, text, Reason.UNKNOWN_FIELD)
    return body


def deployment(http_request: HttpRequest) -> str:
    """Return the requested deployment, or an empty string."""
    return http_request.headers.get("azureml-model-deployment", "").strip()
