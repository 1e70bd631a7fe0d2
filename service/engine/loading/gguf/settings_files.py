"""Write the configuration, the tokenizer and the chat template of a GGUF file as files. Also a program."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from service.engine.loading.gguf.settings import GgufSettings
from service.engine.loading.gguf.splitters import check_splitter, set_splitter
from service.engine.models.checkpoint.gguf.header import GgufHeader, read_header
from service.generation.errors import ModelLoadError

_REJECTED: Final = 3


def write_settings(header: GgufHeader, folder: Path, dtype: str) -> None:
    """Write the configuration, the tokenizer and the chat template of a file. Raise ModelLoadError."""
    settings = GgufSettings(header)
    config = settings.config(dtype)
    config["tie_word_embeddings"] = "output.weight" not in header.tensors
    config["attention_bias"] = settings.kind == "llama" and "blk.0.attn_q.bias" in header.tensors
    check_splitter(header.file, *settings.word_splitter)
    _write_tokenizer(header.file, folder)
    set_splitter(folder, *settings.word_splitter)
    for name, text in {**settings.other_files(), "config.json": json.dumps(config, indent=2)}.items():
        (folder / name).write_text(text, encoding="utf-8")


def _write_tokenizer(file: Path, folder: Path) -> None:
    """Write the tokenizer that transformers builds from a GGUF file."""
    if find_spec("gguf") is None:
        raise ModelLoadError("GGUF files are read by a package that is not installed: pip install gguf")
    from transformers import AutoTokenizer, logging  # noqa: PLC0415  it takes seconds

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
        tokenizer.save_pretrained(folder)
    except Exception as error:  # many types, which need no different handling
        raise ModelLoadError(f"{file}: its tokenizer can't be converted: {error}") from error


def main() -> int:
    """Write the settings of the file that the first argument names to the folder of the second."""
    file, folder = (Path(argument) for argument in sys.argv[1:])
    try:
        write_settings(read_header(file), folder, "bfloat16")
    except ModelLoadError as error:
        sys.stderr.write(f"{error}\n")
        return _REJECTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
