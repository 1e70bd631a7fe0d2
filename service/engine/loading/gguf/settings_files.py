"""Write the configuration, the tokenizer and the chat template of a GGUF file as files. Also a program."""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from service.engine.loading.gguf.gguf_folder import joined, split_files
from service.engine.loading.gguf.marked_tokens import restore_marked_tokens, strip_after_marked_tokens
from service.engine.loading.gguf.settings import GgufSettings
from service.engine.loading.gguf.splitters import check_splitter, drop_first_space, set_splitter
from service.engine.models.checkpoint.gguf.header import GgufHeader, read_header
from service.generation.errors import ModelLoadError

_REJECTED: Final = 3


def write_settings(header: GgufHeader, folder: Path, dtype: str) -> None:
    """Write the configuration, the tokenizer and the chat template of a model. Raise ModelLoadError.

    `header` has the metadata of the model's first file and the tensors of all.
    """
    settings = GgufSettings(header)
    config = settings.config(dtype)
    check_splitter(header.file, *settings.word_splitter)
    _write_tokenizer(header.file, folder)
    tokens, (kind, splitter) = header.metadata["tokenizer.ggml.tokens"], settings.word_splitter
    set_splitter(folder, kind, splitter, settings.bos, adds_bos=settings.adds_bos)
    if kind == "gpt2":
        restore_marked_tokens(folder, tokens, settings.token_types)
    elif kind == "llama" and config["model_type"] == "phi3":
        strip_after_marked_tokens(folder)
    if not settings.begins_with_space:
        drop_first_space(folder)
    _drop_invented_tokens(folder, len(tokens))
    settings.write_sentence_files(folder)
    for name, text in {**settings.other_files(), "config.json": json.dumps(config, indent=2)}.items():
        (folder / name).write_text(text, encoding="utf-8")


def _write_tokenizer(file: Path, folder: Path) -> None:
    """Write the tokenizer that transformers builds from a GGUF file."""
    if find_spec("gguf") is None:
        raise ModelLoadError("GGUF files are read by a package that is not installed: pip install gguf")
    from transformers import PreTrainedTokenizerFast, logging  # noqa: PLC0415  it takes seconds
    from transformers.integrations.gguf import gguf_tokenizer_mapping  # noqa: PLC0415  likewise

    builders = gguf_tokenizer_mapping.GGUF_SENTENCEPIECE_BUILDERS
    for name in ("gemma3n", "gemma-embedding"):  # which transformers doesn't know as Gemma's
        builders.setdefault(name, builders["gemma3"])
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        with tempfile.TemporaryDirectory() as alone:  # transformers prefers a tokenizer.json in the file's folder
            (Path(alone) / file.name).symlink_to(file.absolute())
            tokenizer: Any = PreTrainedTokenizerFast.from_pretrained(alone, gguf_file=file.name)
        tokenizer.save_pretrained(folder)
    except Exception as error:  # many types, which need no different handling
        raise ModelLoadError(f"{file}: its tokenizer can't be converted: {error}") from error


def _drop_invented_tokens(folder: Path, num_tokens: int) -> None:
    """Remove the special tokens that transformers adds to the file's own, since the model has no weights for them."""
    file, config_file = folder / "tokenizer.json", folder / "tokenizer_config.json"
    tokenizer = json.loads(file.read_text(encoding="utf-8"))
    invented = {token["content"] for token in tokenizer["added_tokens"] if token["id"] >= num_tokens}
    if not invented:
        return
    tokenizer["added_tokens"] = [token for token in tokenizer["added_tokens"] if token["id"] < num_tokens]
    file.write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
    config = json.loads(config_file.read_text(encoding="utf-8"))
    kept = {name: value for name, value in config.items() if not (isinstance(value, str) and value in invented)}
    config_file.write_text(json.dumps(kept, ensure_ascii=False), encoding="utf-8")


def main() -> int:
    """Write the settings of the model whose file the first argument names to the folder of the second."""
    file, folder = (Path(argument) for argument in sys.argv[1:])
    try:
        write_settings(joined([read_header(each) for each in split_files(file)]), folder, "bfloat16")
    except ModelLoadError as error:
        sys.stderr.write(f"{error}\n")
        return _REJECTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
