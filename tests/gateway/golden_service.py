"""A service that answers each method by fixed messages, and records its requests and answers.

The methods come from the contract's descriptors, so that each method can be scripted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from textwrap import indent
from typing import Any, TypeAlias

import grpc
from google.protobuf import descriptor_pool, text_format
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from tests.gateway import fakes

Answer: TypeAlias = Message | fakes.Status
Answers: TypeAlias = Mapping[str, Sequence[Answer]]  # method name → its answers; a status may only be the last


class GoldenService(grpc.GenericRpcHandler):
    """Plays `answers`. `notes` is the transcript so far; `port` is its port."""

    def __init__(self) -> None:
        self.answers: Answers = {}
        self.notes: list[str] = []
        self.port = 0

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Return the handler of a method with answers; any other is UNIMPLEMENTED."""
        service, _, name = details.method.removeprefix("/").rpartition("/")
        if name not in self.answers:
            return None
        method = descriptor_pool.Default().FindServiceByName(service).methods_by_name[name]

        async def play(request: Message, context: Any) -> AsyncIterator[Message]:
            metadata = [f"{key}: {value}" for key, value in context.invocation_metadata() if _is_recorded(key)]
            self._note(f">>> {service}/{name}", *sorted(metadata), "", _text(request))
            for answer in self.answers[name]:
                if isinstance(answer, fakes.Status):
                    details = [f"{each.DESCRIPTOR.full_name}\n{indent(_text(each), '  ')}" for each in answer.details]
                    self._note(f"<<< {answer.code.name}: {answer.words}", *details)
                    await fakes.abort(context, answer)
                else:
                    self._note(f"<<< {answer.DESCRIPTOR.name}", _text(answer))
                    yield answer

        async def play_one(request: Message, context: Any) -> Message:
            return await anext(play(request, context))

        make = grpc.unary_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler
        handler: grpc.RpcMethodHandler[Any, Any] = make(
            play if method.server_streaming else play_one,
            request_deserializer=GetMessageClass(method.input_type).FromString,
            response_serializer=GetMessageClass(method.output_type).SerializeToString,
        )
        return handler

    def _note(self, *lines: str) -> None:
        self.notes.append("\n".join(lines).rstrip("\n") + "\n\n")


async def golden_service() -> AsyncIterator[GoldenService]:
    """Run a golden service until the block ends."""
    service = GoldenService()
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((service,))
    service.port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield service
    await server.stop(None)


def _is_recorded(key: str) -> bool:
    """Return True if a metadata key is recorded; those of transport and tracing are not."""
    return key.startswith("x-") or key == "authorization"


def _text(message: Message) -> str:
    return text_format.MessageToString(message, as_utf8=True).rstrip("\n")
