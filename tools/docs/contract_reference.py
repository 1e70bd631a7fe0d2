"""Writes docs/grpc_reference.md: every RPC, message and enum of the contract, from its descriptors and comments."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
)
from grpc_tools import protoc

from service.interceptors.rpcs import RPCS

ROOT = Path(__file__).resolve().parents[2]
PROTO = ROOT / "generated" / "proto"
PAGE = ROOT / "docs" / "grpc_reference.md"
PACKAGE = "sluice.v1"
FIRST = ("chat", "completion", "response", "text_generation", "embedding", "token", "model", "endpoint", "watermark")

_HEADER = """\
# The gRPC contract, field by field

Made by `make generate` from the comments of `proto/sluice/v1/`. How to call it is on [its own page](grpc.md), what an
error says on [another](errors.md). A field without a mark is left out by leaving it at its type's zero; `optional` ones
know whether they were set. Messages of the `google.protobuf` package are protobuf's own.

Each RPC needs a key with the scope that stands beside it, or any one of them, where [keys](keys.md) are used at all.

"""
_MESSAGE, _ENUM, _SERVICE, _EXTENSION = (
    4,
    5,
    6,
    7,
)  # field numbers of FileDescriptorProto, by which comments find their place
_FIELD, _VALUE, _METHOD = 2, 2, 2  # of the descriptors below
_SCALARS = {number: name.removeprefix("TYPE_").lower() for name, number in FieldDescriptorProto.Type.items()}


def reference() -> str:
    """The page's text."""
    files = {Path(file.name).stem: file for file in _files()}
    names = [*FIRST, *sorted(files.keys() - set(FIRST))]
    parts = [_File(files[name]) for name in names]
    sections = dict(sorted(pair for each in parts for pair in each.types()))
    rows = ["| RPC | takes | answers with | scope |", "|---|---|---|---|"]
    rows += [row for each in parts for row in each.rpc_rows()]
    services: list[str] = []
    for file in parts:
        services += file.services()
        services += [sections.pop(name) for name in file.own_messages() if name in sections]
    return "\n".join([_HEADER + "\n".join(rows), *services, "\n## Parts of them", *sections.values()]) + "\n"


class _File:
    """One file of the contract, and the comments of its parts by their paths."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._file = file
        self._comments = {tuple(each.path): _prose(each.leading_comments) for each in file.source_code_info.location}

    def rpc_rows(self) -> Iterator[str]:
        """A row of the overview for each RPC."""
        for service in self._file.service:
            for method in service.method:
                scopes = sorted(RPCS[f"{PACKAGE}.{service.name}/{method.name}"].scopes)
                needed = " or ".join(f"`{scope}`" for scope in scopes) or "any key"
                name = f"[`{service.name}/{method.name}`](#{(service.name + method.name).lower()})"
                yield f"| {name} | {_link(method.input_type)} | {_answer(method)} | {needed} |"

    def own_messages(self) -> Iterator[str]:
        """The messages that RPCs take and answer with, in their order."""
        for service in self._file.service:
            for method in service.method:
                yield from (name.rpartition(".")[2] for name in (method.input_type, method.output_type))

    def services(self) -> Iterator[str]:
        """A section for each service and each of its RPCs."""
        for index, service in enumerate(self._file.service):
            yield f"\n## {service.name}\n\n{self._comments[_SERVICE, index]}"
            for at, method in enumerate(service.method):
                yield f"\n### {service.name}/{method.name}\n\n{self._comments[_SERVICE, index, _METHOD, at]}\n"
                yield f"Takes {_link(method.input_type)}, answers with {_answer(method)}."

    def types(self) -> Iterator[tuple[str, str]]:
        """(name, section) of each message, enum and option."""
        for index, message in enumerate(self._file.message_type):
            rows = "\n".join(self._fields(message, (_MESSAGE, index)))
            yield message.name, f"\n### {message.name}\n\n{self._comments[_MESSAGE, index]}\n\n{rows}"
        for index, enum in enumerate(self._file.enum_type):
            yield enum.name, f"\n### {enum.name}\n\n{self._enum(enum, (_ENUM, index))}"
        for index, option in enumerate(self._file.extension):
            row = f"| `{option.name}` | {_plain_type(option)} | {_cell(self._comments[_EXTENSION, index])} |"
            table = f"| option | type | meaning |\n|---|---|---|\n{row}"
            yield option.name, f"\n### {option.name}\n\n{self._comments[_EXTENSION,]}\n\n{table}"

    def _enum(self, enum: EnumDescriptorProto, path: tuple[int, ...]) -> str:
        rows = [
            f"| `{value.name}` | {value.number} | {_cell(self._comments[*path, _VALUE, at])} |"
            for at, value in enumerate(enum.value)
        ]
        return "\n".join([self._comments[path], "", "| value | number | meaning |", "|---|---|---|", *rows])

    def _fields(self, message: DescriptorProto, path: tuple[int, ...]) -> Iterator[str]:
        if not message.field:
            yield "It has no fields."
            return
        yield "| field | type | meaning |"
        yield "|---|---|---|"
        for at, field in enumerate(message.field):
            meaning = _cell(self._comments[*path, _FIELD, at])
            yield f"| `{field.name}` | {_type(field, message)} | {meaning} |"


def _type(field: FieldDescriptorProto, message: DescriptorProto) -> str:
    """A field's type as a reader says it."""
    entry = next(
        (each for each in message.nested_type if field.type_name.endswith(f".{message.name}.{each.name}")), None
    )
    if entry is not None and entry.options.map_entry:
        key, value = entry.field
        return f"map of {_plain_type(key)} to {_plain_type(value)}"
    plain = _plain_type(field)
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"list of {plain}"
    if field.proto3_optional:
        return f"optional {plain}"
    if field.HasField("oneof_index"):
        return f"{plain}, one of `{message.oneof_decl[field.oneof_index].name}`"
    return plain


def _plain_type(field: FieldDescriptorProto) -> str:
    return _link(field.type_name) if field.type_name else _SCALARS[field.type]


def _link(name: str) -> str:
    plain = name.removeprefix(f".{PACKAGE}.")
    return f"[`{plain}`](#{plain.lower()})" if plain != name else f"`{name.removeprefix('.')}`"


def _answer(method: MethodDescriptorProto) -> str:
    return f"{'a stream of ' if method.server_streaming else ''}{_link(method.output_type)}"


def _prose(comment: str) -> str:
    """A comment's paragraphs, each on one line, without words for linters."""
    lines = [line.strip() for line in comment.splitlines() if "buf:lint" not in line]
    return re.sub(r"(?<!\n)\n(?!\n)", " ", "\n".join(lines).strip())


def _cell(text: str) -> str:
    return text.replace("\n\n", " ").replace("|", "\\|")


def _files() -> Sequence[FileDescriptorProto]:
    """The contract's descriptors with their comments."""
    names = sorted(path.relative_to(PROTO).as_posix() for path in PROTO.rglob("*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.binpb")
        google = Path(protoc.__file__).parent / "_proto"
        flags = [f"-I{PROTO}", f"-I{google}", "--include_source_info", f"--descriptor_set_out={out}"]
        if protoc.main(["protoc", *flags, *names]):
            raise SystemExit(1)
        return FileDescriptorSet.FromString(out.read_bytes()).file


if __name__ == "__main__":
    PAGE.write_text(reference())
