"""Native backends of GGUF files."""

from __future__ import annotations

import json
from pathlib import Path

from service.engine.loading.gguf.settings import GgufSettings
from service.engine.models.checkpoint.gguf.gguf_checkpoint import GgufCheckpoint
from service.engine.models.checkpoint.gguf.header import read_header
from service.engine.models.checkpoint.model_config import read_model_config
from service.engine.models.native.backend import NativeBackend, load_native


def backend_of_file(file: Path, dtype: str, checkpoint: type[GgufCheckpoint] = GgufCheckpoint) -> NativeBackend:
    """Return the backend of a file, with the configuration that its metadata state."""
    header = read_header(file)
    (file.parent / "config.json").write_text(json.dumps(GgufSettings(header).config(dtype)))
    return load_native(read_model_config(file.parent), checkpoint(file.parent, [header]), dtype, 1)
