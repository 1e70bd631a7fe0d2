"""Files: records to messages."""

from __future__ import annotations

from sluice.v1 import file_pb2

from service.contract.parts.answer import timestamp
from service.storage.responses.batch_port import FileRecord


def to_file(record: FileRecord) -> file_pb2.File:
    """Return the message of a file."""
    file = file_pb2.File(
        id=record.id,
        created=timestamp(record.created_ns),
        num_bytes=record.num_bytes or record.results_bytes,
        filename=record.filename,
        purpose=file_pb2.FILE_PURPOSE_BATCH,
    )
    if record.expires_ns:
        file.expires.CopyFrom(timestamp(record.expires_ns))
    if record.batch_id:
        file.purpose, file.batch_id = file_pb2.FILE_PURPOSE_BATCH_OUTPUT, record.batch_id
        file.outcome = (
            file_pb2.BATCH_OUTCOME_FAILED if record.is_of_errors else file_pb2.BATCH_OUTCOME_SUCCEEDED
        )  # fmt: skip
    return file
