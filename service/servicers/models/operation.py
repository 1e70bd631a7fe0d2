"""sluice.v1.OperationService."""

from __future__ import annotations

from typing import Final

from sluice.v1 import operation_pb2, operation_pb2_grpc

from service.calls.call import current_caller
from service.contract.models.operation import operation_message
from service.contract.parts.page import page_of
from service.deployment.operations.shared_operations import SharedOperations

_PAGE_SIZE: Final = 20  # the default
_TIMEOUT_S: Final = 3600.0  # the default of WaitOperation


class OperationServicer(operation_pb2_grpc.OperationServiceServicer):
    """Implements OperationService."""

    def __init__(self, operations: SharedOperations) -> None:
        self._operations = operations

    async def GetOperation(  # noqa: N802
        self,
        request: operation_pb2.GetOperationRequest,
        context: object,  # noqa: ARG002
    ) -> operation_pb2.GetOperationResponse:
        operation = await self._operations.get(request.id, current_caller())
        return operation_pb2.GetOperationResponse(operation=operation_message(operation))

    async def ListOperations(  # noqa: N802
        self,
        request: operation_pb2.ListOperationsRequest,
        context: object,  # noqa: ARG002
    ) -> operation_pb2.ListOperationsResponse:
        operations = await self._operations.list(current_caller())
        page, token = page_of(operations, lambda each: each.id, request, "operations", default_size=_PAGE_SIZE)
        return operation_pb2.ListOperationsResponse(operations=map(operation_message, page), next_page_token=token)

    async def WaitOperation(  # noqa: N802
        self,
        request: operation_pb2.WaitOperationRequest,
        context: object,  # noqa: ARG002
    ) -> operation_pb2.WaitOperationResponse:
        timeout_s = request.timeout.ToNanoseconds() / 1e9 if request.HasField("timeout") else _TIMEOUT_S
        operation = await self._operations.wait(request.id, current_caller(), timeout_s)
        return operation_pb2.WaitOperationResponse(operation=operation_message(operation))

    async def CancelOperation(  # noqa: N802
        self,
        request: operation_pb2.CancelOperationRequest,
        context: object,  # noqa: ARG002
    ) -> operation_pb2.CancelOperationResponse:
        operation = await self._operations.cancel(request.id, current_caller())
        return operation_pb2.CancelOperationResponse(operation=operation_message(operation))
