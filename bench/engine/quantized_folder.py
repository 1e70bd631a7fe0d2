"""A folder of a model's shape whose matrices are random codes of GPTQ."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Final

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from bench.engine.native.random_weights import FOLDERS

_FORMAT: Final = "GPTQ, 4 bits"


def gptq_folder(folder: Path) -> Path:
    """Return a copy of a folder with random codes instead of its layers' matrices, created once."""
    made = folder.with_name(f"{folder.name}-gptq")
    if made.is_dir():
        return made
    building = made.with_suffix(".building")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir()
    for file in folder.iterdir():
        if file.suffix in {".json", ".jinja"}:
            shutil.copy(file, building / file.name)
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = dict(FOLDERS[_FORMAT].quantization)
    (building / "config.json").write_text(json.dumps(config))
    random = np.random.default_rng(0)
    stored: dict[str, torch.Tensor] = {}
    with safe_open(folder / "model.safetensors", "pt") as tensors:
        for name in tensors.keys():  # noqa: SIM118 it is no mapping
            if "_proj.weight" not in name:
                stored[name] = tensors.get_tensor(name)
                continue
            rows, columns = tensors.get_slice(name).get_shape()
            drawn = FOLDERS[_FORMAT].tensors(rows, columns, random)
            base = name.removesuffix(".weight")
            stored |= {f"{base}{end}": torch.from_numpy(array) for end, array in drawn.items()}
    save_file(stored, building / "model.safetensors")
    building.rename(made)
    return made
