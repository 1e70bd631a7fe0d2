"""Step times from a table of measurements."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

Points = tuple[tuple[int, float], ...]

_MAX_DECODES, _MAX_PROMPT_TOKENS = 1024, 8192


@dataclass(frozen=True)
class StepTable:
    """Measured seconds, interpolated linearly between points and extrapolated beyond the last."""

    name: str
    decode: Points  # by sequences, of a step that decodes these only, each with `context` tokens
    prefill: Points  # by tokens, of a step that only computes a prompt of that length
    context: int = 0
    context_s: float = 0.0  # a decode's additional time per additional token of context
    request_s: float = 0.0  # a request's overhead in addition to its steps
    num_blocks: int = 4096
    block_size: int = 16

    def save(self, file: Path) -> None:
        """Write the table as JSON."""
        file.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")


def load_table(file: Path) -> StepTable:
    """Read a table that `save` wrote."""
    data = json.loads(file.read_text(encoding="utf-8"))
    for name in ("decode", "prefill"):
        data[name] = tuple((int(number), float(seconds)) for number, seconds in data[name])
    return StepTable(**data)


class StepModel:
    """A step table with precomputed values for fast lookup."""

    def __init__(self, table: StepTable) -> None:
        self.table = table
        self._decode = _line(table.decode, _MAX_DECODES)
        self._prefill = _line(table.prefill, _MAX_PROMPT_TOKENS)
        self._first = self._prefill[1]  # the cost of a step's first token, which a mixed step has only once

    def seconds(self, num_decodes: int, num_prompt_tokens: int, context: float = 0.0) -> float:
        """Return the time of a step; `context` is the total number of tokens of all decoding sequences."""
        if not num_decodes:
            return self._prefill[num_prompt_tokens]
        more = self.table.context_s * (context - num_decodes * self.table.context)
        seconds = max(self._decode[num_decodes] + more, self._decode[1] / 2)
        return seconds + self._prefill[num_prompt_tokens] - self._first if num_prompt_tokens else seconds


def _line(points: Points, last: int) -> list[float]:
    """Return the values at 0, 1, … `last`; the value at 0 is 0."""
    numbers, seconds = (np.array(each, dtype=float) for each in zip(*points, strict=True))
    slope = (seconds[-1] - seconds[-2]) / (numbers[-1] - numbers[-2]) if len(points) > 1 else 0.0
    at = np.arange(last + 1, dtype=float)
    values = np.interp(at, numbers, seconds) + slope * np.maximum(at - numbers[-1], 0)
    values[0] = 0.0
    found: list[float] = values.tolist()
    return found


# An 8 B model in bf16 on an H100-class device, in round numbers from public benchmarks. It shows the behaviour of a
# large fleet and is not meant for capacity planning. `python -m bench.fleet calibrate` measures a real model.
EXAMPLE = StepTable(
    "8b",
    decode=((1, 0.009), (16, 0.011), (64, 0.016), (128, 0.024), (256, 0.040)),
    prefill=((1, 0.009), (256, 0.018), (512, 0.030), (1024, 0.055), (2048, 0.105)),
    context=1024,
    context_s=4.0e-8,
    num_blocks=24_000,
)

# A 0.5 B model in bf16 on two CPU cores, in round numbers from docs/operation/performance.md.
CPU_EXAMPLE = StepTable(
    "0.5b",
    decode=((1, 0.024), (4, 0.027), (16, 0.034), (64, 0.080)),
    prefill=((1, 0.024), (32, 0.044), (512, 0.430), (2048, 1.800)),
    context=128,
    context_s=3.0e-6,
    num_blocks=24_000,
)
