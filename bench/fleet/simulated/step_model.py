"""How long a step takes, from a table of measurements."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

Points = tuple[tuple[int, float], ...]

_MAX_DECODES, _MAX_PROMPT_TOKENS = 1024, 8192


@dataclass(frozen=True)
class StepTable:
    """Measured seconds. Between the points they are taken to lie on lines, and beyond the last on its line."""

    name: str
    decode: Points  # by sequences, of a step that decodes these only, each with `context` tokens
    prefill: Points  # by tokens, of a step that computes a prompt of so many only
    context: int = 0
    context_s: float = 0.0  # a decode's additional time for each token more in its context
    request_s: float = 0.0  # a request's own way in and out, beside its steps
    num_blocks: int = 4096
    block_size: int = 16

    def save(self, file: Path) -> None:
        """As JSON."""
        file.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")


def load_table(file: Path) -> StepTable:
    """From what `save` wrote."""
    said = json.loads(file.read_text(encoding="utf-8"))
    for name in ("decode", "prefill"):
        said[name] = tuple((int(number), float(seconds)) for number, seconds in said[name])
    return StepTable(**said)


class StepModel:
    """The table, quick to ask."""

    def __init__(self, table: StepTable) -> None:
        self.table = table
        self._decode = _line(table.decode, _MAX_DECODES)
        self._prefill = _line(table.prefill, _MAX_PROMPT_TOKENS)
        self._first = self._prefill[1]  # what a step costs for its first token, which one that does both pays once

    def seconds(self, num_decodes: int, num_prompt_tokens: int, context: float = 0.0) -> float:
        """Of a step; `context` is the tokens of all sequences that decode together."""
        if not num_decodes:
            return self._prefill[num_prompt_tokens]
        more = self.table.context_s * (context - num_decodes * self.table.context)
        seconds = max(self._decode[num_decodes] + more, self._decode[1] / 2)
        return seconds + self._prefill[num_prompt_tokens] - self._first if num_prompt_tokens else seconds


def _line(points: Points, last: int) -> list[float]:
    """The values at 0, 1, … `last`; 0 is nothing."""
    numbers, seconds = (np.array(each, dtype=float) for each in zip(*points, strict=True))
    slope = (seconds[-1] - seconds[-2]) / (numbers[-1] - numbers[-2]) if len(points) > 1 else 0.0
    at = np.arange(last + 1, dtype=float)
    values = np.interp(at, numbers, seconds) + slope * np.maximum(at - numbers[-1], 0)
    values[0] = 0.0
    found: list[float] = values.tolist()
    return found


# What an H100-class device does with an 8 B model in bf16, in round numbers of public benchmarks: for the shape of a
# large fleet, not for anybody's capacity plan. `python -m bench.fleet calibrate` measures a real one.
EXAMPLE = StepTable(
    "8b",
    decode=((1, 0.009), (16, 0.011), (64, 0.016), (128, 0.024), (256, 0.040)),
    prefill=((1, 0.009), (256, 0.018), (512, 0.030), (1024, 0.055), (2048, 0.105)),
    context=1024,
    context_s=4.0e-8,
    num_blocks=24_000,
)
