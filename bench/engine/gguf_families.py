"""Compare probabilities with llama.cpp's on the same GGUF files of each family of models.

Run as `python -m bench.engine.gguf_families [--models llama gemma3_text …] [--types F32 Q8_0 …] [--llama-server PATH]`,
with native/ and `tools/install.sh llama` installed. The models are small ones with random weights, converted by
llama.cpp's own programs; the prompts are held-out cases of the bundled model in its chat template. llama.cpp answers
greedily, and both sides' log probabilities before each of its tokens are compared. Prints for each file how many of the
most likely tokens are equal, the largest margin of ours over llama.cpp's where they differ, and the differences of the
log probabilities of llama.cpp's ten most likely tokens, and of ours from those of the widened weights in float32. The
exit code is 1 if a mean difference exceeds LIMITS.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np
from numpy.typing import NDArray

from bench.engine.gguf_greedy import WidenedCheckpoint, llama_server, loaded, logits_after
from bench.engine.quantization import held_out
from bench.gguf_shapes import GGUF_MODELS, gguf_shape_folder
from bench.serving.gguf_weights import gguf_file
from bench.serving.servers import LLAMA_SERVER
from service.engine.models.checkpoint.gguf.gguf_checkpoint import GgufCheckpoint
from service.engine.models.native.backend import NativeBackend

# The largest mean difference of log probabilities that rounding explains: llama.cpp rounds the inputs of products to
# float16 or 8 bits, which can change the choice of experts, and reads GELU from a table of float16.
LIMITS: Final = {"F32": 1e-3, "F16": 0.03, "Q8_0": 0.2, "Q6_K": 0.25, "Q4_K_M": 0.25, "Q4_0": 0.25}
_NUM_TOKENS, _NUM_LISTED, _TIMEOUT_S = 24, 10, 120
_OPTIONS: Final = ("--cache-type-k", "f32", "--cache-type-v", "f32", "--flash-attn", "off", "--threads", "1")


@dataclass
class Differences:
    """What differs between two sides' probabilities after each token of some answers."""

    num_equal: int = 0
    margins: list[float] = field(default_factory=list)  # of the own log probabilities, where the first tokens differ
    errors: list[float] = field(default_factory=list)  # the differences of log probabilities
    own_errors: list[float] = field(default_factory=list)  # of ours from those of the widened weights

    def add(self, logits: NDArray[np.float32], exact: NDArray[np.float32], listed: Sequence[dict[str, Any]]) -> None:
        """Compare the logits after a token with llama.cpp's list of most likely tokens, the first one first.

        `exact` are the logits of the widened weights.
        """
        own, meant = log_probabilities(logits), log_probabilities(exact)
        first = int(own.argmax())
        if first == listed[0]["id"]:
            self.num_equal += 1
        else:
            self.margins.append(float(own[first] - own[listed[0]["id"]]))
        self.errors += [abs(float(own[each["id"]]) - each["logprob"]) for each in listed]
        self.own_errors += [abs(float(own[each["id"]] - meant[each["id"]])) for each in listed]


def log_probabilities(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the log probabilities of a row of logits."""
    wide = logits.astype(np.float64)
    found: NDArray[np.float64] = wide - np.logaddexp.reduce(wide)
    return found


def llama_probabilities(address: str, prompt: list[int]) -> tuple[list[int], list[list[dict[str, Any]]]]:
    """Return llama.cpp's answer, and for each of its tokens the list of the most likely ones.

    The answer ends before a token of which llama.cpp has no list, since it is a part of a character.
    """
    body: dict[str, Any] = {"prompt": prompt, "n_predict": _NUM_TOKENS, "temperature": 0, "n_probs": _NUM_LISTED}
    body |= {"cache_prompt": False, "samplers": ["top_k"], "top_k": 1, "return_tokens": True}
    answer = httpx.post(f"{address}/completion", json=body, timeout=_TIMEOUT_S).raise_for_status().json()
    pairs = zip(answer["tokens"], answer["completion_probabilities"], strict=False)
    found = list(takewhile(lambda pair: pair[0] == pair[1]["id"], pairs))
    return [token for token, _ in found], [listed["top_logprobs"] for _, listed in found]


def compare(backend: NativeBackend, exact: NativeBackend, address: str, prompts: list[list[int]]) -> Differences:
    """Compare a file's model with llama.cpp at the address, and with `exact`, the model of the widened weights."""
    found = Differences()
    for prompt in prompts:
        tokens, lists = llama_probabilities(address, prompt)
        own, meant = (logits_after(each, [*prompt, *tokens[:-1]], len(tokens)) for each in (backend, exact))
        for logits, other, listed in zip(own, meant, lists, strict=True):
            found.add(logits, other, listed)
    return found


def row_of(name: str, quantized: str, prompts: list[list[int]], server: Path) -> tuple[str, bool]:
    """Return a row of the table, and whether its differences are within the limit."""
    file = gguf_file(gguf_shape_folder(name), quantized)
    backend, exact = (loaded(file, "float32", kind)[0] for kind in (GgufCheckpoint, WidenedCheckpoint))
    with llama_server(file, *_OPTIONS, program=server) as address:
        found = compare(backend, exact, address, prompts)
    num_tokens = found.num_equal + len(found.margins)
    margin = f"{max(found.margins):.4f}" if found.margins else "none"
    mean, own_mean = float(np.mean(found.errors)), float(np.mean(found.own_errors))
    numbers = f"{mean:.5f} | {max(found.errors):.4f} | {own_mean:.5f}"
    row = f"| {name} | {quantized} | {found.num_equal} of {num_tokens} | {margin} | {numbers} |"
    return row, mean <= LIMITS[quantized]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="*", choices=GGUF_MODELS, default=GGUF_MODELS)
    parser.add_argument("--types", nargs="*", choices=LIMITS, default=("F32", "F16", "Q8_0", "Q4_K_M"))
    parser.add_argument("--prompts", type=int, default=6)
    parser.add_argument("--llama-server", type=Path, default=LLAMA_SERVER)
    options = parser.parse_args()
    prompts = [case.prompt for case in held_out(1)][: options.prompts]
    heads = ("equal tokens", "largest margin", "mean difference", "largest", "of ours from the exact values")
    print(f"| model | type | {' | '.join(heads)} |\n|---|---|{'--:|' * len(heads)}")
    are_equal = True
    for name in options.models:
        for quantized in options.types:
            row, is_within = row_of(name, quantized, prompts, options.llama_server)
            print(row, flush=True)
            are_equal &= is_within
    return 0 if are_equal else 1


if __name__ == "__main__":
    sys.exit(main())
