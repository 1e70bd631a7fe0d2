"""Ids of stored things that are another key's, deleted, or made up: no answer tells one from another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
from google.protobuf import json_format
from grpc_status import rpc_status
from sluice.v1 import (
    batch_pb2,
    batch_pb2_grpc,
    conversation_pb2,
    conversation_pb2_grpc,
    file_pb2,
    file_pb2_grpc,
    response_pb2,
    response_pb2_grpc,
    stored_response_pb2,
)

from tests.service.auth.key_files import write
from tests.service.background.background_calls import in_background, storing
from tests.service.batches import batch_calls as batches
from tests.service.fakes import Running, rejection_of, running
from tests.service.servicers.responses.test_response import message_item
from tests.service.servicers.test_quota import bearing

SERVICES: dict[str, Any] = {
    "Response": (response_pb2, response_pb2_grpc.ResponseServiceStub),
    "Conversation": (conversation_pb2, conversation_pb2_grpc.ConversationServiceStub),
    "File": (file_pb2, file_pb2_grpc.FileServiceStub),
    "Batch": (batch_pb2, batch_pb2_grpc.BatchServiceStub),
}
MADE_UP = ("0" * 32, "x")
# Fields that requests need in addition to the id.
OTHERS: dict[str, dict[str, Any]] = {
    "AddConversationItems": {"items": [message_item("hi")]},
    "GetConversationItem": {"itemId": "x"},
    "DeleteConversationItem": {"itemId": "x"},
}


async def created(run: Running, key: str) -> dict[str, str]:
    """Return the ids of a new response, conversation, file and batch of a key."""
    call = {"metadata": bearing(key)}
    stubs = {name: stub(run.channel) for name, (_, stub) in SERVICES.items()}
    response = (await stubs["Response"].CreateResponse(in_background(), **call)).response
    conversation = (
        await stubs["Conversation"].CreateConversation(conversation_pb2.CreateConversationRequest(), **call)
    ).conversation
    description = file_pb2.FileDescription(filename="f", purpose=file_pb2.FILE_PURPOSE_BATCH)
    sent = [file_pb2.UploadFileRequest(description=description), file_pb2.UploadFileRequest(content=b"x")]
    file = (await stubs["File"].UploadFile(iter(sent), **call)).file
    batch = (await stubs["Batch"].CreateBatch(iter(batches.messages([batches.chat_line("a")])), **call)).batch
    return {"Response": response.id, "Conversation": conversation.id, "File": file.id, "Batch": batch.id}


def methods_with_id(name: str) -> list[tuple[str, type[Any]]]:
    """Return the methods of a service whose requests have the id of something stored, with the requests' types."""
    module, _ = SERVICES[name]
    found = []
    for method in module.DESCRIPTOR.services_by_name[f"{name}Service"].methods:
        if "id" in method.input_type.fields_by_name:
            kind = getattr(module, method.input_type.name, None) or getattr(stored_response_pb2, method.input_type.name)
            found.append((method.name, kind))
    return found


async def rejection(run: Running, service: str, method: tuple[str, type[Any]], stored_id: str, key: str) -> Any:
    """Return all that a client gets, except what differs in each call."""
    name, kind = method
    request = json_format.ParseDict({"id": stored_id, **OTHERS.get(name, {})}, kind())
    call = getattr(SERVICES[service][1](run.channel), name)(request, metadata=bearing(key))
    error = (await rejection_of(call)).error
    assert error.code() is grpc.StatusCode.NOT_FOUND
    status: Any = rpc_status.from_call(error)  # type: ignore[arg-type]  # it has what a call has
    names = sorted(name for name, _ in error.trailing_metadata() or ())
    return error.details(), status.SerializeToString(), names


async def test_foreign_deleted_and_unknown_ids_are_alike(tmp_path: Path) -> None:
    """The statuses of all methods are equal to the byte; what exists is not changed by any of them."""
    keys = write(tmp_path / "keys.yaml", a={}, b={})
    async with running(auth={"keys_file": tmp_path / "keys.yaml"}, **storing(tmp_path)) as run:
        kept, deleted = await created(run, keys["a"]), await created(run, keys["a"])
        num_methods = 0
        for service, (module, stub) in SERVICES.items():
            delete = getattr(module, f"Delete{service}Request", None) or stored_response_pb2.DeleteResponseRequest
            call = getattr(stub(run.channel), f"Delete{service}")
            await call(delete(id=deleted[service]), metadata=bearing(keys["a"]))
            for method in methods_with_id(service):
                foreign = await rejection(run, service, method, kept[service], keys["b"])
                for stored_id in (deleted[service], *MADE_UP):
                    assert await rejection(run, service, method, stored_id, keys["a"]) == foreign
                num_methods += 1
            get = getattr(module, f"Get{service}Request", None) or stored_response_pb2.GetResponseRequest
            await getattr(stub(run.channel), f"Get{service}")(get(id=kept[service]), metadata=bearing(keys["a"]))
        assert num_methods >= 18
