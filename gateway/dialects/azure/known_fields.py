"""Remove unknown fields from a JSON body, at any depth. The rest of the body is unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import inspect

_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])


def known_fields(body: bytes, kind: Any) -> bytes:
    """Return the JSON text `body` for a decoder of `kind`. Values of other types are left for the decoder to reject."""
    return _known(msgspec.Raw(body), _type_info(kind))


@cache
def _type_info(kind: Any) -> inspect.Type:
    return inspect.type_info(kind)


def _known(raw: msgspec.Raw, kind: inspect.Type) -> bytes:
    """Return a JSON value without the fields that its type doesn't have."""
    text = bytes(raw)
    kinds = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    if text.startswith(b"{"):
        return _known_of_object(text, [each for each in kinds if isinstance(each, inspect.StructType)])
    lists = [each for each in kinds if isinstance(each, inspect.ListType)]
    if text.startswith(b"[") and lists:
        items = _LIST.decode(text)
        return msgspec.json.encode([msgspec.Raw(_known(item, lists[0].item_type)) for item in items])
    return text


def _known_of_object(text: bytes, structs: Sequence[inspect.StructType]) -> bytes:
    """Return an object without the fields that its type, one of `structs`, doesn't have."""
    given = _OBJECT.decode(text)
    struct = structs[0] if len(structs) == 1 else next((each for each in structs if _has_tag_of(given, each)), None)
    if struct is None:  # a map of values, such as a JSON Schema, or a value that the decoder rejects
        return text
    fields = {field.encode_name: field.type for field in struct.fields}
    known = {name: msgspec.Raw(_known(raw, fields[name])) for name, raw in given.items() if name in fields}
    if struct.tag_field is not None and struct.tag_field in given:
        known[struct.tag_field] = given[struct.tag_field]
    return msgspec.json.encode(known)


def _has_tag_of(given: Mapping[str, msgspec.Raw], struct: inspect.StructType) -> bool:
    """Return whether the object has the tag of the type."""
    tag = given.get(struct.tag_field) if struct.tag_field is not None else None
    return tag is not None and bytes(tag) == msgspec.json.encode(struct.tag)
