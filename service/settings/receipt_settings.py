"""The settings of receipts."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class ReceiptSettings(BaseModel):
    """Receipts of answers, which requests ask for; see docs/features/receipts.md."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key_file: Path | None = Field(
        None,
        description="file with the Ed25519 key that signs receipts, as `sluice receipts create-key` writes it; null: "
        "requests for receipts are rejected",
    )
