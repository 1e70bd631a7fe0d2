"""The settings of stored responses."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from process.settings.quantities import Bytes, Count, Interval
from process.settings.setting import UNIT
from service.storage.responses.port import MAX_LEASE_S

_DAY_S: Final = 86_400
_MIB: Final = 1 << 20


class StoredResponseSettings(BaseModel):
    """Responses that requests with `store: true` store; see docs/features/stored_responses.md."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: Path | None = Field(
        None,
        description="SQLite file of the responses, with their requests, that clients store; null: clients can store "
        "none, unless postgres_url is set",
    )
    postgres_url: Annotated[str, Field(pattern=r"^postgres(ql)?://")] | None = Field(
        None,
        repr=False,  # it may contain a password
        description="PostgreSQL database that stores the responses instead of a file, so that replicas share them: "
        "`postgresql://USER@HOST:PORT/DATABASE`, with libpq's parameters. Needs `sluice-llm[postgres]`",
    )
    postgres_password_file: Path | None = Field(
        None,
        description="file with the password for `postgres_url`, read at each connection; null: the URL has it, or the "
        "variable PGPASSWORD, or none is needed",
    )
    encryption_key_file: Path | None = Field(
        None,
        description="file with the key that encrypts the stored content, 32 bytes in base64; null: it is not "
        "encrypted. A file or database keeps the key with which it was created",
    )
    max_age_s: Interval = Field(30 * _DAY_S, description="age at which a stored response is deleted")
    max_bytes_per_key: Bytes = Field(
        64 * _MIB,
        description="content that an API key may store; its oldest responses are deleted for new ones. Without keys "
        "all clients share it",
    )
    max_bytes: Bytes = Field(
        1024 * _MIB, description="content that all clients may store together; above it no more is stored"
    )
    max_background: Count = Field(
        8, description="responses with `background: true` that the service generates at the same time"
    )
    max_background_per_key: Count = Field(
        100, description="unfinished responses with `background: true` that an API key may have"
    )
    lease_s: Annotated[float, Field(gt=0, le=MAX_LEASE_S, json_schema_extra={UNIT: "seconds"})] = Field(
        10, description="time after which a service continues the responses in the background of another one that died"
    )
    timeout_s: Interval = Field(
        2, description="time after which an answer is sent without being stored if the store does not answer"
    )
