"""Random protobuf messages of any type, valid or not."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st

TEXTS = st.sampled_from(
    [
        "",
        "hi",
        "sluice-demo",
        "all-minilm-l6-v2",
        "no-such-model",
        "user",
        "[",
        '{"type": "object"}',
        '{"type": "integer", "minimum": 18446744073709551616}',
        r'{"const": "\ud800"}',
        "a+",
        "\0",
        "<|im_end|>",
        "\U000f0000",
        "x" * 300,
    ]
) | st.text(max_size=20)
INTEGERS = st.sampled_from([0, 1, 2, 3, 5, 63, 64, 65, 255, 2047, 2048, 2**31 - 1]) | st.integers(0, 2**31 - 1)
FLOATS = st.sampled_from([0.0, 0.5, 1.0, -0.0, 2.0, -100.0, 1e-45, 3e38, float("inf"), float("-inf"), float("nan")])
MOST_ITEMS, DEEPEST = 3, 6
KINDS: dict[int, Any] = {
    FieldDescriptor.CPPTYPE_STRING: TEXTS,
    FieldDescriptor.CPPTYPE_INT32: INTEGERS | INTEGERS.map(lambda value: -value),
    FieldDescriptor.CPPTYPE_INT64: INTEGERS | INTEGERS.map(lambda value: -value) | st.just(2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: INTEGERS | st.just(2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: INTEGERS | st.just(2**64 - 1),
    FieldDescriptor.CPPTYPE_FLOAT: FLOATS,
    FieldDescriptor.CPPTYPE_DOUBLE: FLOATS,
    FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
    FieldDescriptor.CPPTYPE_ENUM: st.integers(-1, 6),
}


def messages(kind: type[Message]) -> st.SearchStrategy[Message]:
    """Return a strategy for messages of a type; most of their fields have meaningful values."""

    @st.composite
    def strategy(draw: st.DrawFn) -> Message:
        message = kind()
        _fill(draw, message, DEEPEST)
        return message

    return strategy()


def _fill(draw: st.DrawFn, message: Any, depth: int) -> None:
    kind: Descriptor = message.DESCRIPTOR
    for field in kind.fields:
        is_wanted = draw(st.integers(0, 2)) > 0 if field.name in {"model", "messages", "prompts", "inputs"} else None
        if is_wanted is False or (is_wanted is None and draw(st.integers(0, 3)) > 0) or not depth:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            _fill_map(draw, getattr(message, field.name), field.message_type)
        elif field.is_repeated:
            for _ in range(draw(st.integers(1, MOST_ITEMS))):
                if field.message_type is not None:
                    _fill(draw, getattr(message, field.name).add(), depth - 1)
                else:
                    getattr(message, field.name).append(_value(draw, field))
        elif field.message_type is not None:
            getattr(message, field.name).SetInParent()
            _fill(draw, getattr(message, field.name), depth - 1)
        else:
            setattr(message, field.name, _value(draw, field))


def _fill_map(draw: st.DrawFn, entries: Any, kind: Descriptor) -> None:
    key, value = kind.fields_by_name["key"], kind.fields_by_name["value"]
    for _ in range(draw(st.integers(1, MOST_ITEMS))):
        entries[_value(draw, key)] = _value(draw, value)


def _value(draw: st.DrawFn, field: FieldDescriptor) -> Any:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return draw(st.binary(max_size=9))
    if field.name == "model" and draw(st.integers(0, 9)):
        return "sluice-demo"
    return draw(KINDS[field.cpp_type])
