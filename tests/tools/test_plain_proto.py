"""The contract without its rules compiles from a clean clone, in every language, without other files."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from tools.contract.protoc_gen_plain_proto import NotPlainError, check_ruled, check_same, without_rules

ROOT = Path(__file__).resolve().parents[2]
SOURCE, PLAIN = ROOT / "proto", ROOT / "generated" / "proto"
NAMES = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.proto"))
PROTOC = Path(sys.executable).with_name("protoc")
OPTIONS = {
    "v1": {
        "csharp_namespace": "Sluice.V1",
        "go_package": "sluice/v1;sluicev1",
        "java_multiple_files": True,
        "java_package": "sluice.v1",
        "objc_class_prefix": "SLU",
        "php_metadata_namespace": "Sluice\\V1\\GPBMetadata",
        "php_namespace": "Sluice\\V1",
        "ruby_package": "Sluice::V1",
    },
    "inference": {
        "csharp_namespace": "Sluice.Inference",
        "go_package": "sluice/inference;inference",
        "java_multiple_files": True,
        "java_package": "sluice.inference",
        "objc_class_prefix": "SLI",
        "php_metadata_namespace": "Sluice\\Inference\\GPBMetadata",
        "php_namespace": "Sluice\\Inference",
        "ruby_package": "Sluice::Inference",
    },
    "vllm": {
        "csharp_namespace": "Sluice.Vllm",
        "go_package": "sluice/vllm;vllm",
        "java_multiple_files": True,
        "java_package": "sluice.vllm",
        "objc_class_prefix": "SLV",
        "php_metadata_namespace": "Sluice\\Vllm\\GPBMetadata",
        "php_namespace": "Sluice\\Vllm",
        "ruby_package": "Sluice::Vllm",
    },
}
# Each language's generated file for ChatRequest, and an identifier in it.
CHAT_REQUESTS = {
    "python": ("sluice/v1/chat_pb2.py", "ChatRequest"),
    "cpp": ("sluice/v1/chat.pb.h", "namespace v1"),
    "java": ("sluice/v1/ChatRequest.java", "package sluice.v1;"),
    "kotlin": ("sluice/v1/ChatRequestKt.kt", "ChatRequest"),
    "csharp": ("Chat.cs", "namespace Sluice.V1"),
    "ruby": ("sluice/v1/chat_pb.rb", "module V1"),
    "php": ("Sluice/V1/ChatRequest.php", "namespace Sluice\\V1;"),
    "objc": ("sluice/v1/Chat.pbobjc.h", "@interface SLUChatRequest"),
}


RULED = """\
syntax = "proto3";

// Has an [option].
package t;

import "buf/validate/validate.proto";

message M {
  option (buf.validate.message).cel = {
    id: "a"
    expression: "a; b }"
  };

  option deprecated = true;
  // Range [1, 2].
  int32 a = 1 [(buf.validate.field).int32 = {
    gte: 1
    lte: 2
  }];
  string b = 2 [
    deprecated = true,
    (buf.validate.field).string = {
      in: ["];", "\\"{"]
    },
    json_name = "]"
  ]; // [a, b]
  oneof o {
    option (buf.validate.oneof).required = true;
    int32 c = 3 [json_name = "["];
  }
}
"""
UNRULED = """\
syntax = "proto3";

// Has an [option].
package t;

message M {
  option deprecated = true;
  // Range [1, 2].
  int32 a = 1;
  string b = 2 [deprecated = true, json_name = "]"]; // [a, b]
  oneof o {
    int32 c = 3 [json_name = "["];
  }
}
"""


def test_only_rules_are_removed() -> None:
    """Other options, comments and strings that look like rules are kept."""
    assert without_rules(RULED) == UNRULED


def test_another_contract_is_rejected() -> None:
    """A file that lost more than its rules, doesn't compile, or came without rules is not written."""
    file = FileDescriptorProto(name="t.proto", syntax="proto3", package="t")
    file.message_type.add(name="M")
    for text in ('syntax = "proto3";\npackage t;\nmessage N {}\n', 'syntax = "proto3";\npackage t;\nmessage M {\n'):
        with pytest.raises(NotPlainError):
            check_same({"t.proto": text}, [file])
    with pytest.raises(NotPlainError, match=r"buf generate --config buf\.rules\.yaml"):
        check_ruled({"t.proto": RULED}, [file])


def test_plain_contract_is_up_to_date() -> None:
    """Each file equals the output of `make generate` from proto/."""
    assert sorted(path.relative_to(PLAIN).as_posix() for path in PLAIN.rglob("*.proto")) == NAMES
    for name in NAMES:
        assert (PLAIN / name).read_text() == without_rules((SOURCE / name).read_text()), name


@pytest.mark.parametrize("name", NAMES)
def test_every_file_names_its_package_in_every_language(name: str) -> None:
    """All files of a folder have the same package in each language."""
    module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    file = FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    outer = "".join(word.capitalize() for word in Path(name).stem.split("_")) + "Proto"
    assert {field.name: value for field, value in file.options.ListFields() if not field.is_extension} == {
        **OPTIONS[Path(name).parent.name],
        "java_outer_classname": outer,
    }


@pytest.mark.slow
@pytest.mark.parametrize("language", CHAT_REQUESTS)
def test_protoc_compiles_the_plain_contract(language: str, tmp_path: Path) -> None:
    """`protoc -I generated/proto` generates code from all files, in each language that protoc has built in."""
    command: list[str | Path] = [PROTOC, f"-I{PLAIN}", f"--{language}_out={tmp_path}", *NAMES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    path, word = CHAT_REQUESTS[language]
    assert word in (tmp_path / path).read_text()


@pytest.mark.slow
def test_descriptors_have_the_comments(tmp_path: Path) -> None:
    """A descriptor set written by protoc alone has all services, and the comments of the source."""
    out = tmp_path / "sluice.binpb"
    flags = [f"-I{PLAIN}", "--include_imports", "--include_source_info", f"--descriptor_set_out={out}"]
    subprocess.run([str(PROTOC), *flags, *NAMES], check=True)
    files = {file.name: file for file in FileDescriptorSet.FromString(out.read_bytes()).file}
    assert set(NAMES) < set(files)
    assert not [name for name in files if name.startswith("buf/")]
    comments = [each.leading_comments for each in files["sluice/v1/chat.proto"].source_code_info.location]
    assert " Answers conversations." in "\n".join(comments)


@pytest.mark.slow
def test_buf_builds_and_lints_a_clean_clone(tmp_path: Path) -> None:
    """`buf build` and `buf lint` pass on the files in git, without downloads."""
    shutil.copy(ROOT / "buf.yaml", tmp_path)
    shutil.copytree(PLAIN, tmp_path / "generated" / "proto")
    buf = ROOT / ".cache/npm/node_modules/.bin/buf"
    commands: tuple[tuple[str, ...], ...] = (("build", "-o", "clone.binpb"), ("lint",))
    for command in commands:
        done = subprocess.run([str(buf), *command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert b"StreamChat" in (tmp_path / "clone.binpb").read_bytes()
