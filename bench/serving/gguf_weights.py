"""Conversion of a model's folder to a GGUF file for llama.cpp, by llama.cpp's own converter.

The converter asks for the pre-tokenizer by a hash of its results. llama.cpp has none like the bundled one, so the
answer is always GPT-2's, and texts may be split into other tokens; `prompts.py` uses words that both split alike.

`python -m bench.serving.gguf_weights FOLDER FILE TYPE` converts a folder.
"""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

from bench import shapes

LLAMA = shapes.ROOT / ".cache" / "llama.cpp"
_TYPES = {"float32": "f32", "bfloat16": "bf16"}


def gguf_file(folder: Path, quantized: str) -> Path:
    """Return the folder's weights as a GGUF file, created once, in llama.cpp's type `quantized` or unconverted."""
    plain = folder / "model.gguf"
    if not plain.is_file():
        building = plain.with_suffix(".building")
        stored = json.loads((folder / "config.json").read_text()).get("dtype", "float32")
        command = [sys.executable, "-m", "bench.serving.gguf_weights", str(folder), str(building), _TYPES[stored]]
        subprocess.run(command, check=True, cwd=shapes.ROOT)
        building.rename(plain)
    if not quantized:
        return plain
    small = folder / f"model-{quantized}.gguf"
    if not small.is_file():
        # Without --pure, some tensors of a "Q4_0" file have larger types.
        command = [str(LLAMA / "llama-quantize"), "--pure", str(plain), str(small.with_suffix(".building")), quantized]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        small.with_suffix(".building").rename(small)
    return small


def main(folder: str, file: str, kind: str) -> None:
    sys.path[:0] = [str(LLAMA), str(LLAMA / "gguf-py")]
    from conversion.base import TextModel  # type: ignore[import-not-found]  # noqa: PLC0415  it is found from now on
    from conversion.llama import LlamaModel  # type: ignore[import-not-found]  # noqa: PLC0415
    from conversion.phi import Phi3MiniModel  # type: ignore[import-not-found]  # noqa: PLC0415

    TextModel.get_vocab_base_pre = lambda *_: "gpt-2"
    for each in (LlamaModel, Phi3MiniModel):  # which look for SentencePiece's files first
        each.set_vocab = lambda model: model._set_vocab_gpt2()  # noqa: SLF001
    sys.argv = ["convert", folder, "--outfile", file, "--outtype", kind]
    runpy.run_path(str(LLAMA / "convert_hf_to_gguf.py"), run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
