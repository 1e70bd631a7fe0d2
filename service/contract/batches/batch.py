"""Batches: records to messages, and the messages of lines and their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, cast

from sluice.v1 import batch_pb2, chat_pb2, completion_pb2, embedding_pb2, error_pb2, file_pb2, response_pb2

from service.contract.parts.answer import timestamp
from service.storage.responses.batch_port import BatchRecord, EndedLine, LineState

Line = batch_pb2.BatchLine
Result = batch_pb2.StreamBatchResultsResponse
Answer: TypeAlias = (
    chat_pb2.ChatResponse
    | completion_pb2.CompleteResponse
    | response_pb2.CreateResponseResponse
    | embedding_pb2.EmbedResponse
)

STATES: Final[Mapping[int, Sequence[LineState]]] = {
    file_pb2.BATCH_OUTCOME_UNSPECIFIED: (LineState.SUCCEEDED, LineState.FAILED, LineState.EXPIRED),
    file_pb2.BATCH_OUTCOME_SUCCEEDED: (LineState.SUCCEEDED,),
    file_pb2.BATCH_OUTCOME_FAILED: (LineState.FAILED, LineState.EXPIRED),
}


def to_batch(record: BatchRecord) -> batch_pb2.Batch:
    """Return the message of a batch."""
    batch = batch_pb2.Batch(
        id=record.id,
        description=batch_pb2.BatchDescription.FromString(record.description),
        status=cast("batch_pb2.BatchStatus", record.status),
        created=timestamp(record.created_ns),
        expires=timestamp(record.expires_ns),
        num_requests=record.num_lines,
        num_succeeded=record.num_succeeded,
        num_failed=record.num_failed,
        output_file_id=record.results_file(is_of_errors=False),
        error_file_id=record.results_file(is_of_errors=True),
    )
    if record.ended_ns:
        batch.ended.CopyFrom(timestamp(record.ended_ns))
    return batch


def answer_bytes(name: str, answer: Answer) -> bytes:
    """Return the answer to the request in the field `name` of a line, as it is stored."""
    result = Result()
    getattr(result, name).CopyFrom(answer)
    return result.SerializeToString()


def error_bytes(reason: error_pb2.ErrorReason, message: str, field: str = "") -> bytes:
    """Return an error as it is stored."""
    error = batch_pb2.BatchError(reason=reason, message=message, field=field)
    return Result(error=error).SerializeToString()


def to_result(ended: EndedLine, expired: bytes) -> Result:
    """Return the message of a line that has ended. `expired` is the error of one that has no result."""
    line = Line.FromString(ended.request)
    result = Result.FromString(expired if ended.state == LineState.EXPIRED else ended.result)
    result.index, result.custom_id, result.client_data = ended.index, line.custom_id, line.client_data
    return result
