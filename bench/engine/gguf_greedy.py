"""Compare greedy answers with llama.cpp's on the same GGUF files of the bundled model.

Run as `python -m bench.engine.gguf_greedy [--types Q8_0 Q4_K_M …] [--cases N]`, with native/ and `tools/install.sh
llama` installed. The prompts are held-out cases of every skill of the model card in the model's chat template, as token
ids, since llama.cpp has no pre-tokenizer like the bundled one. Prints the share of answers with the same tokens, and of
those that differ, the largest difference between the two most likely tokens' logits where the answers part: where it is
small, the rounding of inputs and of keys and values decides.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np
from numpy.typing import NDArray

from bench import shapes
from bench.engine.quantization import held_out
from bench.serving.gguf_weights import gguf_file
from bench.serving.servers import LLAMA_SERVER, free_port
from service.engine.core.batch import Batch
from service.engine.loading.gguf.settings_files import write_settings
from service.engine.models.checkpoint.gguf.gguf_checkpoint import GgufCheckpoint
from service.engine.models.checkpoint.gguf.header import read_header
from service.engine.models.checkpoint.model_config import read_model_config
from service.engine.models.native.backend import NativeBackend, RecurrentBackend, load_native

TYPES: Final = ("F16", "Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0", "IQ4_NL")
_BLOCK_SIZE, _MAX_LENGTH, _MOST_TOKENS = 16, 2_048, 48
_START_S: Final = 120


class WidenedCheckpoint(GgufCheckpoint):
    """A file whose weights are computed as the numbers that its blocks mean."""

    block_type = None


def loaded(
    file: Path, cache_dtype: str = "float16", checkpoint: type[GgufCheckpoint] = GgufCheckpoint
) -> tuple[NativeBackend, set[int]]:
    """Return a file's model with a cache, and a state, for one sequence, and its end tokens."""
    header = read_header(file)
    with tempfile.TemporaryDirectory() as folder:
        write_settings(header, Path(folder), "float32")
        config = read_model_config(Path(folder))
        ends = json.loads((Path(folder) / "generation_config.json").read_text())["eos_token_id"]
    backend = load_native(config, checkpoint(file.parent, [header]), "float32", 2, cache_dtype=cache_dtype)
    backend.prepare_thread(2)
    backend.allocate(_MAX_LENGTH // _BLOCK_SIZE, _BLOCK_SIZE)
    if isinstance(backend, RecurrentBackend):
        backend.allocate_states(1)
    return backend, set(ends)


def next_logits(backend: NativeBackend, ids: list[int], num_cached: int) -> NDArray[np.float32]:
    """Return the logits of the token after `ids`, of which the first `num_cached` are in the cache."""
    new = ids[num_cached:]
    batch = Batch(
        token_ids=np.array(new, np.int32),
        positions=np.arange(num_cached, len(ids), dtype=np.int32),
        row_offsets=np.array([0, len(new)], np.int32),
        context_lengths=np.array([len(ids)], np.int32),
        block_tables=np.arange(_MAX_LENGTH // _BLOCK_SIZE, dtype=np.int32)[None],
        output_rows=np.array([len(new) - 1], np.int32),
    )
    logits: NDArray[np.float32] = np.asarray(backend.forward(batch))[0]
    return logits


def logits_after(backend: NativeBackend, ids: list[int], count: int) -> NDArray[np.float32]:
    """Return the logits after each of the last `count` of the tokens `ids`, [count, vocabulary]."""
    length = len(ids)
    batch = Batch(
        token_ids=np.array(ids, np.int32),
        positions=np.arange(length, dtype=np.int32),
        row_offsets=np.array([0, length], np.int32),
        context_lengths=np.array([length], np.int32),
        block_tables=np.arange(_MAX_LENGTH // _BLOCK_SIZE, dtype=np.int32)[None],
        output_rows=np.arange(length - count, length, dtype=np.int32),
        states=np.array([[0, 0, 0, -1]], np.int32) if isinstance(backend, RecurrentBackend) else None,
    )
    return np.array(backend.forward(batch))


def own_answer(backend: NativeBackend, prompt: list[int], ends: set[int]) -> tuple[list[int], list[float]]:
    """Return the most likely tokens, and by how much the first one's logit exceeds the second one's at each."""
    ids, margins = list(prompt), list[float]()
    num_cached = 0
    while len(ids) - len(prompt) < _MOST_TOKENS:
        logits = next_logits(backend, ids, num_cached)
        first, second = np.sort(logits)[::-1][:2]
        num_cached = len(ids)
        ids.append(int(logits.argmax()))
        margins.append(float(first - second))
        if ids[-1] in ends:
            break
    return ids[len(prompt) :], margins


@contextmanager
def llama_server(file: Path, *options: str, program: Path = LLAMA_SERVER) -> Iterator[str]:
    """Run llama.cpp's server, with further options; yield its address."""
    port = free_port()
    command = [str(program), "--model", str(file), "--port", str(port), "--no-webui", "--threads", "2"]
    command += ["--ctx-size", str(_MAX_LENGTH), "--parallel", "1", *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            address = f"http://127.0.0.1:{port}"
            _wait(f"{address}/health")
            yield address
        finally:
            process.terminate()


def _wait(url: str) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        with suppress(httpx.TransportError):
            if httpx.get(url).is_success:
                return
        time.sleep(0.2)
    raise TimeoutError(f"{url} did not answer within {_START_S} seconds")


def llama_answer(address: str, prompt: list[int]) -> list[int]:
    """Return llama.cpp's most likely tokens."""
    body: dict[str, Any] = {"prompt": prompt, "n_predict": _MOST_TOKENS, "temperature": 0, "return_tokens": True}
    body |= {"cache_prompt": False, "samplers": ["top_k"], "top_k": 1}
    response = httpx.post(f"{address}/completion", json=body, timeout=_START_S).raise_for_status()
    tokens: list[int] = response.json()["tokens"]
    return tokens


def compare(file: Path, prompts: list[list[int]]) -> str:
    """Return a row of the table for a file."""
    backend, ends = loaded(file)
    num_equal, num_tokens, margins = 0, 0, list[float]()
    with llama_server(file) as address:
        for prompt in prompts:
            own, own_margins = own_answer(backend, prompt, ends)
            theirs = llama_answer(address, prompt)
            num_tokens += len(own)
            length = min(len(own), len(theirs))  # llama.cpp's may lack the end token
            parting = next((i for i in range(length) if own[i] != theirs[i]), None)
            num_equal += parting is None
            margins += [] if parting is None else [own_margins[parting]]
    largest = f"{max(margins):.3f}" if margins else "none"
    return f"| {file.stem} | {num_tokens} | {num_equal} of {len(prompts)} | {largest} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--types", nargs="*", choices=TYPES, default=TYPES)
    parser.add_argument("--cases", type=int, default=4, help="cases per skill")
    options = parser.parse_args()
    prompts = [case.prompt for case in held_out(options.cases)]
    print("| file | tokens | equal answers | largest margin where they part |\n|---|--:|--:|--:|")
    for quantized in options.types:
        print(compare(gguf_file(shapes.demo(), quantized), prompts), flush=True)


if __name__ == "__main__":
    main()
