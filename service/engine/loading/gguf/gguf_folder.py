"""The folder of a GGUF file: its settings and tokenizer as files, and a reference to its weights."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from process.distribution import installed_version
from service.engine.loading.gguf.unfinished_folder import unfinished_folder
from service.engine.models.checkpoint.gguf.gguf_checkpoint import REFERENCE
from service.engine.models.checkpoint.gguf.header import GgufHeader, read_header
from service.generation.errors import ModelLoadError

_REJECTED: Final = 3  # the exit code of settings_files for a ModelLoadError
_FORM: Final = "3"  # of folders; another one if files are read in another way
_SPLIT: Final = re.compile(r"(.+-)\d{5}(-of-(\d{5})\.gguf)", re.IGNORECASE)


def gguf_folder(file: Path) -> Path:
    """Return the folder of a GGUF file, which is created once per version of the file. Raise ModelLoadError."""
    files = split_files(file)
    try:
        folder = _cache() / f"{file.stem}-{_identity(files)}"
        if (folder / REFERENCE).is_file():
            return folder
        check_split([read_header(each) for each in files])
        with unfinished_folder(folder) as building:
            _write_settings(files[0], building)
            (building / REFERENCE).write_text(json.dumps({"files": [str(each) for each in files]}), encoding="utf-8")
            try:
                building.rename(folder)
            except OSError:  # another process was faster
                if not (folder / REFERENCE).is_file():
                    raise
    except OSError as error:
        raise ModelLoadError(
            f"{file}: its settings can't be written: {error}; set XDG_CACHE_HOME to a folder that can be written to"
        ) from error
    return folder


def split_files(file: Path) -> list[Path]:
    """Return all files of a model of which `file` is one. Raise ModelLoadError if one is missing."""
    file = file.absolute()
    match = _SPLIT.fullmatch(file.name)
    if match is None:
        return [file]
    start, end, count = match.groups()
    names = [f"{start}{number + 1:05}{end}" for number in range(int(count))]
    files = [file.with_name(name) for name in names]
    for each in files:
        if not each.is_file():
            raise ModelLoadError(f"{file} is one of {len(files)} files, of which {each.name} is missing")
    return files


def check_split(headers: Sequence[GgufHeader]) -> None:
    """Raise ModelLoadError unless the headers are those of all files of a model, in their order."""
    for number, header in enumerate(headers):
        count, own = header.metadata.get("split.count", 1), header.metadata.get("split.no", 0)
        if (count or 1) != len(headers) or own != number:
            raise ModelLoadError(
                f"{header.file}: split.no and split.count are {own} and {count}, "
                f"its name says {number} and {len(headers)}"
            )


def joined(headers: Sequence[GgufHeader]) -> GgufHeader:
    """Return the header of a model in several files: the metadata of the first one, and the tensors of all."""
    tensors = {name: tensor for header in headers for name, tensor in header.tensors.items()}
    return GgufHeader(headers[0].file, headers[0].metadata, tensors)


def _write_settings(file: Path, folder: Path) -> None:
    """Write the settings and the tokenizer in a process of its own, since transformers takes seconds and memory."""
    command = [sys.executable, "-m", "service.engine.loading.gguf.settings_files", str(file), str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  it is this program
    if ended.returncode == _REJECTED:
        raise ModelLoadError(ended.stderr.strip().splitlines()[-1])
    if ended.returncode != 0:
        raise ModelLoadError(f"{file}: its settings can't be read: {ended.stderr.strip()[-1000:]}")


def _cache() -> Path:
    """Return the folder of all folders. Raise ModelLoadError for a user without a home."""
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "sluice" / "gguf"
    try:
        return Path.home() / ".cache" / "sluice" / "gguf"
    except RuntimeError as error:
        raise ModelLoadError(
            f"settings of GGUF files have no folder: {error}; set XDG_CACHE_HOME to a folder that can be written to"
        ) from error


def _identity(files: list[Path]) -> str:
    """Return a short hash of the files' paths, sizes and times, and of the version and form of the folder."""
    described = [installed_version(), _FORM]
    for file in files:
        status = file.stat()
        described += [str(file), str(status.st_size), str(status.st_mtime_ns)]
    return hashlib.sha256("\0".join(described).encode()).hexdigest()[:12]
