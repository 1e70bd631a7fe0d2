"""Clients that have only the descriptor set of a running product, downloaded through Envoy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

QUESTION = "What is the capital of France?"
MODEL = "sluice-demo"


@pytest.fixture(scope="module")
def served(stack: Stack) -> bytes:
    """Return the descriptor set that the public listener serves."""
    answer = httpx.get(f"{stack.url}/sluice.binpb", timeout=GUARD_S)
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, "application/x-protobuf")
    return answer.content


def test_client_is_built_from_the_descriptor_set(stack: Stack, served: bytes) -> None:
    """A descriptor pool of this file alone can make a streamed chat, and its text equals REST's."""
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(served).file:
        pool.Add(file)
    method: Any = pool.FindMethodByName("sluice.v1.ChatService.StreamChat")
    request: Any = GetMessageClass(method.input_type)(model=MODEL, sampling={"temperature": 0})
    role = method.input_type.fields_by_name["messages"].message_type.fields_by_name["role"].enum_type
    request.messages.add(role=role.values_by_name["ROLE_USER"].number).content.add(text=QUESTION)
    with grpc.insecure_channel(f"127.0.0.1:{stack.ports['envoy']}") as channel:
        stream: Any = channel.unary_stream(
            f"/{method.containing_service.full_name}/{method.name}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        events = list(stream(request, timeout=GUARD_S))
    assert events[-1].WhichOneof("event") == "completed"
    body = {"model": MODEL, "temperature": 0, "messages": [{"role": "user", "content": QUESTION}]}
    whole = httpx.post(f"{stack.url}/v1/chat/completions", json=body, timeout=GUARD_S).json()
    assert "".join(event.content_delta.text for event in events) == whole["choices"][0]["message"]["content"]


def test_protoc_generates_code_from_the_descriptor_set(served: bytes, tmp_path: Path) -> None:
    """With `--descriptor_set_in`, protoc needs no .proto files and no protovalidate."""
    descriptors = tmp_path / "sluice.binpb"
    descriptors.write_bytes(served)
    names = [file.name for file in FileDescriptorSet.FromString(served).file if file.name.startswith("sluice/")]
    command = [str(Path(sys.executable).with_name("protoc")), f"--descriptor_set_in={descriptors}"]
    subprocess.run([*command, f"--java_out={tmp_path}", *names], check=True)
    assert "buf.validate" not in (tmp_path / "sluice/v1/ChatProto.java").read_text()
