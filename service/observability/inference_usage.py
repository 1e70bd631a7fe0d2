"""Token usage under the newest names of OpenTelemetry's GenAI conventions, for processes that opt in.

`docs/operation/telemetry_names.md` compares them with the names that every process emits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from opentelemetry.metrics import Meter

from process.telemetry.attributes import ERROR_TYPE
from service.generation.outputs.events import Usage

OPT_IN_VARIABLE: Final = "OTEL_SEMCONV_STABILITY_OPT_IN"  # OpenTelemetry's own: names separated by commas

_LATEST: Final = ("gen_ai_latest_experimental", "gen_ai_latest_experimental/dup")
_PREFIX: Final = "gen_ai.client.inference"
_MODALITY: Final = "gen_ai.token.modality"
_TEXT, _IMAGE, _UNKNOWN = "text", "image", "unknown"
_TOKEN_BUCKETS: Final = tuple(4**power for power in range(14))  # those that the conventions recommend
_COUNTERS: Final = {
    "input_tokens": "Prompt tokens, including cached ones.",
    "output_tokens": "Generated tokens, including reasoning.",
    "cache_read.input_tokens": "Prompt tokens that were found in the prefix cache.",
    "cache_write.input_tokens": "Prompt tokens that were added to the prefix cache.",
    "reasoning.output_tokens": "Generated tokens of reasoning.",
}


def is_opted_in(value: str | None) -> bool:
    """Return True if a value of `OTEL_SEMCONV_STABILITY_OPT_IN` asks for the newest GenAI names."""
    return any(each.strip() in _LATEST for each in (value or "").split(","))


class InferenceUsage:
    """The counters and histograms of the tokens of inference operations. Thread-safe."""

    def __init__(self, meter: Meter) -> None:
        self._counters = {
            name: meter.create_counter(f"{_PREFIX}.usage.{name}", "{token}", description)
            for name, description in _COUNTERS.items()
        }
        self._input, self._output = (
            meter.create_histogram(
                f"{_PREFIX}.operation.{kind}_tokens",
                "{token}",
                f"{kind.capitalize()} tokens of an operation.",
                explicit_bucket_boundaries_advisory=_TOKEN_BUCKETS,
            )
            for kind in ("input", "output")
        )

    def record(
        self, usage: Usage | None, num_written: int, attributes: Mapping[str, str], error_type: str | None
    ) -> None:
        """Record an operation that has ended. `usage` is None if it failed before the engine admitted it.

        `num_written` is the number of prompt tokens that it added to the prefix cache.
        """
        if usage is None:
            for counter in self._counters.values():
                counter.add(0, {**attributes, _MODALITY: _UNKNOWN})
        else:
            self._count(usage, num_written, attributes)
        used = usage or Usage(0)
        ended = attributes if error_type is None else {**attributes, ERROR_TYPE: error_type}
        self._input.record(used.prompt_tokens, ended)
        self._output.record(used.completion_tokens, ended)

    def _count(self, usage: Usage, num_written: int, attributes: Mapping[str, str]) -> None:
        """Count tokens by modality. Which cached tokens are an image's is unknown."""
        text = {**attributes, _MODALITY: _TEXT}
        cached = {**attributes, _MODALITY: _UNKNOWN} if usage.image_tokens else text
        self._counters["input_tokens"].add(usage.prompt_tokens - usage.image_tokens, text)
        if usage.image_tokens:
            self._counters["input_tokens"].add(usage.image_tokens, {**attributes, _MODALITY: _IMAGE})
        self._counters["cache_read.input_tokens"].add(usage.cached_tokens, cached)
        self._counters["cache_write.input_tokens"].add(num_written, cached)
        self._counters["output_tokens"].add(usage.completion_tokens, text)
        self._counters["reasoning.output_tokens"].add(usage.reasoning_tokens, text)
