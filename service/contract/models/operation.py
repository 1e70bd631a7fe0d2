"""Convert operations to messages."""

from __future__ import annotations

from typing import Final

from sluice.v1 import error_pb2, operation_pb2

from service.contract.parts.answer import timestamp
from service.deployment.operations.operation import LoadPhase, OperationKind, OperationState
from service.deployment.operations.operations import KEPT_S
from service.deployment.operations.shared_operations import KnownOperation

_KINDS: Final = {
    OperationKind.LOAD: operation_pb2.OPERATION_KIND_LOAD_MODEL,
    OperationKind.WAKE: operation_pb2.OPERATION_KIND_WAKE_MODEL,
}
_STATES: Final = {
    OperationState.RUNNING: operation_pb2.OPERATION_STATE_RUNNING,
    OperationState.SUCCEEDED: operation_pb2.OPERATION_STATE_SUCCEEDED,
    OperationState.FAILED: operation_pb2.OPERATION_STATE_FAILED,
    OperationState.CANCELLED: operation_pb2.OPERATION_STATE_CANCELLED,
}
_PHASES: Final = {
    LoadPhase.QUEUED: operation_pb2.LOAD_PHASE_QUEUED,
    LoadPhase.PREPARING: operation_pb2.LOAD_PHASE_PREPARING,
    LoadPhase.READING: operation_pb2.LOAD_PHASE_READING,
    LoadPhase.FINISHING: operation_pb2.LOAD_PHASE_FINISHING,
    LoadPhase.PUBLISHING: operation_pb2.LOAD_PHASE_PUBLISHING,
}


def operation_message(operation: KnownOperation) -> operation_pb2.Operation:
    """Return the message of an operation."""
    message = operation_pb2.Operation(
        id=operation.id,
        kind=_KINDS[operation.kind],
        model=operation.model,
        state=_STATES[operation.state],
        progress=operation_pb2.LoadProgress(
            phase=_PHASES[operation.phase],
            loaded_bytes=operation.loaded.num,
            total_bytes=operation.loaded.total,
        ),
        create_time=timestamp(operation.created_ns),
    )
    if (error := operation.error) is not None:
        reason = error_pb2.ErrorReason.Name(error.reason)
        message.error.CopyFrom(operation_pb2.OperationError(reason=reason, message=error.message, field=error.field))
    if operation.ended_ns:
        message.end_time.CopyFrom(timestamp(operation.ended_ns))
        message.expire_time.CopyFrom(timestamp(operation.ended_ns + KEPT_S * 10**9))
    return message
