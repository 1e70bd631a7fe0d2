"""The files of a model's folder that a client needs to tokenize prompts and decode answers by itself."""

from __future__ import annotations

import io
import json
import threading
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_NAMES: Final = (
    "added_tokens.json", "chat_template.json", "config.json", "generation_config.json", "merges.txt",
    "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "vocab.json",
)  # fmt: skip
_PATTERNS: Final = ("*.jinja", "*.model", "*.tiktoken")
_DATE: Final = (1980, 1, 1, 0, 0, 0)  # of all entries, so that equal files give equal archives


@dataclass(frozen=True, slots=True)
class TokenFacts:
    """What a model's configuration says about its type and its special tokens; 0 for a token that it lacks."""

    model_type: str = ""
    eos_token_ids: tuple[int, ...] = ()
    pad_token_id: int = 0
    bos_token_id: int = 0


class ModelFiles:
    """The files of a model's folder, read when they are requested. Its methods block; any thread may call them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._archive = b""

    def tokenizer_archive(self) -> bytes:
        """Return a ZIP archive of the tokenizer's files, the chat template and the configuration, without weights.

        The first call reads the files. Raise OSError if that fails.
        """
        with self._lock:
            if not self._archive:
                buffer = io.BytesIO()
                with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
                    for path in self._paths():
                        archive.writestr(zipfile.ZipInfo(path.name, _DATE), path.read_bytes(), zipfile.ZIP_DEFLATED)
                self._archive = buffer.getvalue()
            return self._archive

    def token_facts(self) -> TokenFacts:
        """Return the facts in config.json and generation_config.json, as far as there are these files."""
        config = self._json("config.json")
        text = config.get("text_config")
        known = {**config, **(text if isinstance(text, dict) else {})}
        ends = self._json("generation_config.json").get("eos_token_id", known.get("eos_token_id"))
        ids = [ends] if isinstance(ends, int) else ends or ()
        return TokenFacts(
            model_type=str(config.get("model_type") or ""),
            eos_token_ids=tuple(ids),
            pad_token_id=_first(known.get("pad_token_id")),
            bos_token_id=_first(known.get("bos_token_id")),
        )

    def _paths(self) -> Iterator[Path]:
        found = {self._folder / name for name in _NAMES}
        found.update(path for pattern in _PATTERNS for path in self._folder.glob(pattern))
        return (path for path in sorted(found) if path.is_file())

    def _json(self, name: str) -> Mapping[str, Any]:
        """Return a file's object; an empty one if there is no such file, or if it is no JSON object."""
        try:
            found = json.loads((self._folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


def _first(value: object) -> int:
    """Return a token id, the first of several, or 0."""
    if isinstance(value, list) and value:
        value = value[0]
    return value if isinstance(value, int) else 0
