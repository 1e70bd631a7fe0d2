"""The settings of files and batches."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from process.settings.quantities import Bytes, Count

_MIB: Final = 1 << 20


class BatchSettings(BaseModel):
    """Files and batches, which are kept with stored responses; see docs/features/batches.md."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_running: Count = Field(32, description="requests of batches that the service answers at the same time")
    max_requests: Count = Field(50_000, description="requests that a batch may have")
    max_batches_per_key: Count = Field(100, description="unfinished batches that an API key may have")
    max_files_per_key: Count = Field(1000, description="uploaded files that an API key may have")
    max_file_bytes: Bytes = Field(128 * _MIB, description="content that an uploaded file may have")
    max_bytes_per_key: Bytes = Field(
        512 * _MIB, description="content that the files and batches of an API key may have together, results included"
    )
    max_bytes: Bytes = Field(4096 * _MIB, description="content that all files and batches may have together")
