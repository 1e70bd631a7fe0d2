"""The names of finish reasons in OpenTelemetry's semantic conventions for generative AI."""

from __future__ import annotations

from typing import Final

from service.generation.outputs.output import FinishReason

_NAMES: Final = {
    FinishReason.END_OF_TEXT: "stop",
    FinishReason.STOP_SEQUENCE: "stop",
    FinishReason.LENGTH: "length",
    FinishReason.TOOL_CALLS: "tool_calls",
}


def finish_reason_name(reason: FinishReason) -> str:
    """Return the value of a reason for the attribute `gen_ai.response.finish_reasons`."""
    return _NAMES[reason]
