"""Count the hand-written files that name a sampling parameter, and fail above the limits.

Run as `python -m tools.parameter_counts`. A parameter that needs only its declaration, its value and its effect is
cheap to add and to change, so the number of files that name it is limited. The request bodies of the dialects, which
document parameters by their own names, types and ranges, vLLM's engine protocol, GGUF's metadata and the chat page are
counted separately: one per dialect. The protocol's own `.proto` is not counted, since it is not ours to change.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from service.generation.requests.parameters import DRAW_PARAMETERS, SamplingParams

ROOT: Final = Path(__file__).parents[1]
DRAW_LIMIT: Final = 6  # .proto, values, native header and source, torch form, and one more
EFFECT_LIMIT: Final = 4  # .proto, values, the effect, and one more
# Names that are also common nouns, so that a file which contains them need not refer to the parameter.
NOUNS: Final = {"seed": "seeds of streams, choices and drafts", "watermark": "the watermark's detection and settings"}
MORE_PER_DIALECT: Final = {  # limits above one for files of a dialect that name a parameter
    ("top_k", "openai"): 3,  # vLLM's and SGLang's ways to turn it off, in chats and completions
}


@dataclass(frozen=True, slots=True)
class Count:
    """The files that name a parameter: those of the core, and those of each dialect."""

    name: str
    limit: int
    core: int
    dialects: Mapping[str, int]

    @property
    def faults(self) -> list[str]:
        """Return a message for each exceeded limit."""
        faults = [f"{self.name} stands in {self.core} files, at most {self.limit} are allowed"] * (
            self.core > self.limit
        )
        for dialect, count in self.dialects.items():
            if count > (allowed := MORE_PER_DIALECT.get((self.name, dialect), 1)):
                faults.append(f"{self.name} stands in {count} files of {dialect}, at most {allowed} are allowed")
        return faults


def main() -> int:
    """Print a line for each parameter; return 1 if any is above its limits."""
    print(f"{'parameter':20}{'files':>6}{'limit':>6}  dialects' bodies and the chat page")
    counts = [count_of(name, limit) for name, limit in limits().items()]
    for count in counts:
        apart = ", ".join(f"{dialect} {number}" for dialect, number in sorted(count.dialects.items()))
        print(f"{count.name:20}{count.core:6}{count.limit:6}  {apart}")
    for name, reason in NOUNS.items():
        print(f"{name:20} not counted: {reason}")
    faults = [fault for count in counts for fault in count.faults]
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


def limits() -> dict[str, int]:
    """Return each parameter's limit by name: draw parameters, and parameters with an effect."""
    names = [each.name for each in fields(SamplingParams) if each.name not in NOUNS]
    return {name: DRAW_LIMIT if name in DRAW_PARAMETERS else EFFECT_LIMIT for name in [*names, "min_tokens"]}


def count_of(name: str, limit: int) -> Count:
    """Count the files that name a parameter as a whole word."""
    paths = ["service", "gateway", "native", "proto", ":!proto/released", ":!proto/sluice/vllm"]
    found = subprocess.run(
        ["git", "grep", "-lw", name, "--", *paths],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    files = [Path(line).parts for line in found.stdout.splitlines()]
    apart: Counter[str] = Counter()
    for parts in files:
        if parts[:2] == ("gateway", "dialects"):
            apart[parts[2]] += 1
        elif parts[:2] == ("gateway", "page"):
            apart["page"] += 1
        elif parts[:3] == ("service", "contract", "vllm"):
            apart["vllm"] += 1
        elif parts[:4] == ("service", "engine", "loading", "gguf"):
            apart["gguf"] += 1
    return Count(name, limit, len(files) - apart.total(), apart)


if __name__ == "__main__":
    sys.exit(main())
