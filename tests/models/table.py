"""The table of architectures in docs/models.md: generated from test results, and parsed."""

from __future__ import annotations

import asyncio
import logging
import re
import tempfile
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

import torch
import transformers
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)

from service.engine.loading.generator import load_model
from service.engine.models.modules.rows_backend import RowsBackend
from service.generation.errors import ModelLoadError
from tests.models.comparison import CONFIG, compare
from tests.models.made import class_of, made
from tests.models.shapes import small

FILE: Final = Path(__file__).parents[2] / "docs" / "models.md"
DECODERS: Final = tuple(sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES))
OTHERS: Final = tuple(sorted(set(MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES) - set(DECODERS)))
EQUAL: Final = "equal"
_MOST_PARAMETERS: Final = 30_000_000  # of a tested model; larger ones have sizes that shapes.py does not override
_ROW: Final = re.compile(r"^\| `([^`]+)` \| ([^|]*) \| [^|]* \| (.*) \|$", re.MULTILINE)
_PROMISES: Final = {
    "native": "all",
    "torch": "prefixes, adapters",
    "transformers": "prefixes, adapters",
    "transformers, one by one": "none",
}
_BEGIN: Final = "<!-- what follows is written by `make models` -->"


@dataclass(frozen=True, slots=True)
class Row:
    """An architecture's result: the backend that served it, and `EQUAL`, the error, or the difference."""

    kind: str
    backend: str
    result: str


def quiet() -> None:
    """Silence all output of the tested libraries."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]


def tried(kind: str) -> Row:
    """Create a small random model of the architecture, serve it, and compare its answers."""
    try:
        with torch.device("meta"):
            config = small(kind)
            size = sum(parameter.numel() for parameter in class_of(config)(config).parameters())
        if size > _MOST_PARAMETERS:
            return Row(kind, "", "not tried: no small model of it was made")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            return _served(kind, made(kind, folder), folder)
    except Exception as error:  # noqa: BLE001  third-party code raises many types
        line = " ".join(str(error).split())[:90]
        return Row(kind, "", f"not tried: transformers made no small model of it: {type(error).__name__}: {line}")


def _served(kind: str, model: object, folder: Path) -> Row:
    outcome = asyncio.run(compare(model, folder))
    if outcome.backend is None:
        reason = outcome.message.rpartition("backend transformers: ")[2].rpartition("is not supported: ")[2]
        return Row(kind, "", f"refused: {reason}")
    backend = outcome.backend
    if backend == "transformers":
        try:
            loaded = load_model(str(folder), CONFIG, compute_dtype="float32", device="cpu")
        except ModelLoadError as error:
            return Row(kind, backend, f"refused: {error}")
        if isinstance(loaded.runner.backend, RowsBackend):
            backend += ", one by one"
    return Row(kind, backend, outcome.message or EQUAL)


def rendered(text: str, rows: Iterable[Row]) -> str:
    """Return the page `text` with its tables regenerated."""
    by_kind = {row.kind: row for row in rows}
    decoders, others = ([by_kind[kind] for kind in kinds] for kinds in (DECODERS, OTHERS))
    head = text.partition(_BEGIN)[0]
    return (
        f"{head}{_BEGIN}\n\n## Decoders\n\n{_counted(decoders)}\n\n{_table(decoders)}\n\n"
        f"## Models that read more than text, as text models\n\n{_counted(others)}\n\n{_table(others)}\n"
    )


def read(text: str) -> dict[str, Row]:
    """Return the rows of a page by architecture."""
    return {found[1]: Row(found[1], found[2].strip(), found[3].strip()) for found in _ROW.finditer(text)}


def _counted(rows: Sequence[Row]) -> str:
    num_equal = sum(row.result == EQUAL for row in rows)
    num_refused = sum(row.result.startswith("refused") for row in rows)
    num_left = sum(row.result.startswith("not tried") for row in rows)
    num_wrong = len(rows) - num_equal - num_refused - num_left
    return (
        f"Of {len(rows)} architectures of transformers {version('transformers')}, {num_equal} answer as transformers "
        f"does,\n{num_refused} are refused, {num_left} were not tried, {num_wrong} answer otherwise."
    )


def _table(rows: Iterable[Row]) -> str:
    lines = [
        f"| `{row.kind}` | {row.backend} | {_PROMISES.get(row.backend, '')} | {row.result.replace('|', '/')} |"
        for row in rows
    ]
    return "\n".join(("| model_type | backend | promises | compared with transformers |", "|---|---|---|---|", *lines))
