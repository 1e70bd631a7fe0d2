"""/sluice.binpb, the contract for clients that have nothing else."""

from __future__ import annotations

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from sluice.v1 import chat_pb2

from gateway.openapi.descriptors import descriptor_set
from service.server.services import SERVICES


def test_descriptor_set_is_self_contained() -> None:
    """The files, in their order, fill an empty descriptor pool with every service of the server."""
    pool = DescriptorPool()
    for file in descriptor_set().file:
        pool.Add(file)
    assert all(pool.FindServiceByName(name).methods for name in SERVICES)


def test_descriptor_set_equals_the_contract_without_rules() -> None:
    """Its messages have the same bytes as those of the generated code, and nothing needs protovalidate."""
    files = FileDescriptorSet.FromString(descriptor_set().SerializeToString()).file
    assert [file.name for file in files if not file.name.startswith(("sluice/", "google/protobuf/"))] == []
    pool = DescriptorPool()
    for file in files:
        pool.Add(file)
        assert b"buf.validate" not in file.SerializeToString()
    request = chat_pb2.ChatRequest(model="m", n=2, messages=[{"role": chat_pb2.FINISH_REASON_STOP}])
    made = GetMessageClass(pool.FindMessageTypeByName("sluice.v1.ChatRequest"))
    assert made.FromString(request.SerializeToString()).SerializeToString() == request.SerializeToString()
    assert next(file for file in files if file.name == "sluice/v1/chat.proto").options.java_package == "sluice.v1"
