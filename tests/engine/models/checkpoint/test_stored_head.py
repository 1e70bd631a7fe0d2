"""A head that a file stores is used, although its configuration ties it to the embedding."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.testing import assert_close

from service.engine.interface.config import EngineConfig
from service.engine.loading.generator import load_model
from tests.engine.folders.packing import FILE
from tests.engine.folders.tiny_models import Part, run
from tests.models.made import made

BACKENDS = ["torch", *(["native"] if find_spec("sluice_native") else [])]
# The type of a model, and the name of its head in files.
MODELS = {"qwen2": "lm_head.weight", "mistral3": "language_model.lm_head.weight", "gemma3_text": "lm_head.weight"}


def write_head(kind: str, folder: Path, *, differs: bool) -> Any:
    """Save a small model whose file doesn't say whether it is tied, with a head; return that of transformers."""
    model = made(kind, folder, tie_word_embeddings=True)
    tensors = load_file(folder / FILE)
    embedding = next(tensor for name, tensor in tensors.items() if name.endswith("embed_tokens.weight"))
    head = torch.randn(embedding.shape, generator=torch.Generator().manual_seed(5)) if differs else embedding.clone()
    save_file(tensors | {MODELS[kind]: head}, folder / FILE, metadata={"format": "pt"})
    said = json.loads((folder / "config.json").read_text())
    if kind != "qwen2":  # its default is another one
        said.pop("tie_word_embeddings", None)
        said.get("text_config", {}).pop("tie_word_embeddings", None)
    (folder / "config.json").write_text(json.dumps(said))
    return type(model).from_pretrained(folder, dtype=torch.float32).eval()


def logits(folder: Path, backend: str, token_ids: list[int]) -> Tensor:
    config = EngineConfig(backend=backend, num_blocks=16, max_model_len=64, num_threads=1)
    loaded = load_model(str(folder), config, compute_dtype="float32", device="cpu")
    return run(loaded.runner.backend, [Part(token_ids, 0, len(token_ids), [3, 0])], 16)[0]


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("differs", [True, False])
def test_logits_are_those_of_transformers(kind: str, backend: str, tmp_path: Path, *, differs: bool) -> None:
    """A head is tied to the embedding only if both have the same numbers."""
    model, token_ids = write_head(kind, tmp_path, differs=differs), list(range(1, 30))
    with torch.inference_mode():
        expected = model(torch.tensor([token_ids])).logits[0]
    assert_close(logits(tmp_path, backend, token_ids), expected, rtol=1e-4, atol=1e-4)
