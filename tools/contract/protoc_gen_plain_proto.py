#!/usr/bin/env python3
"""A protoc plugin: the contract's text without protovalidate's rules, so that it has no third-party imports.

Reads a CodeGeneratorRequest from stdin and the files that it names from proto/, since descriptors omit parts of the
text. Each output file is compiled and compared with its input; unless only the rules differ, nothing is written.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from google.protobuf.compiler import plugin_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import Message
from grpc_tools import protoc

SOURCE = Path(__file__).resolve().parents[2] / "proto"
RULES = "buf/validate/validate.proto"

_NAMESPACE = "(buf.validate."
_WORD = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[A-Za-z_]\w*|.', re.DOTALL)
_OPENING, _CLOSING = "[{(<", "]})>"


class NotPlainError(Exception):
    """A file without its rules isn't the same contract; the message names the file."""


def without_rules(text: str) -> str:
    """Return a .proto file's text, formatted by buf, without rules and without the import of their file."""
    text = text.replace(f'import "{RULES}";\n', "")
    kept, begin = "", 0
    for start, end, replacement in _rules(text):
        kept += text[begin:start] + replacement
        begin = end
    kept += text[begin:]
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"\{\n+", "{\n", kept))


def _rules(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, replacement) of each statement and each list of options that has rules."""
    words = [(each.start(), each.group()) for each in _WORD.finditer(text)]
    at = 0
    while at < len(words):
        start, word = words[at]
        if word == "option" and text.startswith(f"option {_NAMESPACE}", start):
            at, _ = _end(words, at, ";")
            line = text.rindex("\n", 0, start) + 1
            yield line, text.index("\n", words[at][0]) + 1, ""
        elif word == "[":
            at, commas = _end(words, at + 1, "]")
            borders = [start, *commas, words[at][0]]
            options = [text[a + 1 : b].strip() for a, b in pairwise(borders)]
            plain = [option for option in options if not option.startswith(_NAMESPACE)]
            if plain != options:
                space = start - 1 if text[start - 1] == " " else start
                yield space, words[at][0] + 1, f" [{', '.join(plain)}]" if plain else ""
        at += 1


def _end(words: list[tuple[int, str]], at: int, end: str) -> tuple[int, list[int]]:
    """Return the index of the word that ends the list beginning at `at`, and the positions of its commas."""
    depth, commas = 0, []
    while depth or words[at][1] != end:
        position, word = words[at]
        depth += (word in _OPENING) - (word in _CLOSING)
        if word == "," and not depth:
            commas.append(position)
        at += 1
    return at, commas


def check_ruled(texts: Mapping[str, str], files: list[FileDescriptorProto]) -> None:
    """Raise NotPlainError if a descriptor lacks the rules of its text, since all code would lack them."""
    for file in files:
        if RULES not in file.dependency and RULES in texts[file.name]:
            raise NotPlainError(f"{file.name} has lost its rules; generate with: buf generate --config buf.rules.yaml")


def check_same(plain: Mapping[str, str], files: list[FileDescriptorProto]) -> None:
    """Raise NotPlainError unless the texts, by file name, equal these files except for the rules."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in plain.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        out = Path(folder, "out.binpb")
        if protoc.main(["protoc", f"-I{folder}", f"--descriptor_set_out={out}", *_well_known(), *plain]):
            raise NotPlainError("protoc rejected the contract without its rules; its output is above")
        compiled = {file.name: file for file in FileDescriptorSet.FromString(out.read_bytes()).file}
    for file in files:
        expected, found = _bare(file), _bare(compiled[file.name])
        if expected != found:
            raise NotPlainError(f"{file.name} without its rules is another contract")


def _well_known() -> list[str]:
    """Return the flag for Google's own files, which come with grpcio-tools."""
    return [f"-I{Path(protoc.__file__).parent / '_proto'}"]


def _bare(file: FileDescriptorProto) -> FileDescriptorProto:
    """Return a copy without rules and without source positions."""
    bare = FileDescriptorProto.FromString(file.SerializeToString())
    bare.ClearField("source_code_info")
    kept = [name for name in bare.dependency if name != RULES]
    bare.dependency[:] = kept
    _drop_rules(bare)
    return bare


def _drop_rules(message: Message) -> None:
    """Clear rules, which are unknown fields here, and empty options in the message and its submessages."""
    message.DiscardUnknownFields()
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if field.is_repeated else [value]:
                _drop_rules(each)
            if field.name == "options" and not value.ListFields():
                message.ClearField("options")


def main() -> int:
    """Answer one request. Return the exit status."""
    request = plugin_pb2.CodeGeneratorRequest.FromString(sys.stdin.buffer.read())
    names = [name for name in request.file_to_generate if (SOURCE / name).is_file()]
    texts = {name: (SOURCE / name).read_text() for name in names}
    plain = {name: without_rules(text) for name, text in texts.items()}
    files = [file for file in request.proto_file if file.name in plain]
    try:
        check_ruled(texts, files)
        check_same(plain, files)
    except NotPlainError as error:
        print(error, file=sys.stderr)
        return 1
    response = plugin_pb2.CodeGeneratorResponse(
        supported_features=plugin_pb2.CodeGeneratorResponse.FEATURE_PROTO3_OPTIONAL
    )
    for name, text in plain.items():
        response.file.add(name=name, content=text)
    sys.stdout.buffer.write(response.SerializeToString())
    return 0


if __name__ == "__main__":
    sys.exit(main())
