"""What all replicas know of an operation: its record, and the document of all records."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from service.deployment.operations.operation import (
    LoadPhase,
    Operation,
    OperationError,
    OperationKind,
    OperationState,
)
from service.engine.interface.running_load import LoadedBytes


class OperationRecord(BaseModel):
    """An operation as its replica has published it."""

    model_config = ConfigDict(frozen=True)

    owner: str
    kind: OperationKind
    model: str
    id: str
    state: OperationState
    phase: LoadPhase
    loaded: LoadedBytes
    error: OperationError | None
    created_ns: int
    ended_ns: int
    replica: str  # the one that runs it
    published_ns: int
    is_cancelled: bool = False  # a client has requested its end at another replica

    @staticmethod
    def of(operation: Operation, replica: str) -> OperationRecord:
        """Return the record of an operation as of now."""
        return OperationRecord(
            owner=operation.owner,
            kind=operation.kind,
            model=operation.model,
            id=operation.id,
            state=operation.state,
            phase=operation.phase,
            loaded=operation.loaded,
            error=operation.error,
            created_ns=operation.created_ns,
            ended_ns=operation.ended_ns,
            replica=replica,
            published_ns=time.time_ns(),
        )


class OperationRecords(BaseModel):
    """The records of all replicas, the oldest first."""

    model_config = ConfigDict(frozen=True)

    records: Sequence[OperationRecord] = ()

    def find(self, operation_id: str, owner: str) -> OperationRecord | None:
        """Return a record of an owner, or None."""
        return next((each for each in self.records if (each.id, each.owner) == (operation_id, owner)), None)

    def published(self, records: Sequence[OperationRecord], replica: str, oldest_ns: int) -> OperationRecords:
        """Return a document with other records of a replica, and without those published before `oldest_ns`."""
        others = (each for each in self.records if each.replica != replica and each.published_ns >= oldest_ns)
        return OperationRecords(records=sorted([*others, *records], key=lambda each: each.created_ns))

    def cancelled(self, operation_id: str) -> OperationRecords:
        """Return a document that requests the end of an operation."""
        changed = [
            each.model_copy(update={"is_cancelled": True}) if each.id == operation_id else each for each in self.records
        ]
        return OperationRecords(records=changed)


class RecordsJson:
    """Records as JSON. A `Format`; fields that this version doesn't know are ignored."""

    def empty(self) -> OperationRecords:
        """No records."""
        return OperationRecords()

    def parse(self, text: str) -> OperationRecords:
        """Return the records of a text. Raise ValueError."""
        return OperationRecords.model_validate_json(text)

    def dump(self, document: OperationRecords) -> str:
        """Return the text of records."""
        return document.model_dump_json()
