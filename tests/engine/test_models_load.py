"""A model that can't be served is refused at load, with its name and the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from service.engine.models.checkpoint import Checkpoint
from service.engine.models.load import load_backend
from service.generation.errors import ModelLoadError
from tests.engine.tiny_models import MODULES, VOCAB_SIZE, config, load, random_model, save

_SMALL: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}

REFUSED: dict[str, tuple[Any, str]] = {
    "mamba": (
        lambda: config("mamba", vocab_size=VOCAB_SIZE, hidden_size=32, num_hidden_layers=2),
        "recurrent state",
    ),
    "bloom": (
        lambda: config("bloom", vocab_size=VOCAB_SIZE, hidden_size=32, n_layer=2, n_head=4),
        "attention can't be replaced",
    ),
    "gemma2": (lambda: config("gemma2", **_SMALL, num_key_value_heads=2, head_dim=8), "uses softcap"),
    "llama": (
        lambda: config("llama", **_SMALL, rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}),
        "dynamic rotary positions",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_load_refuses_what_it_cannot_serve(name: str, tmp_path: Path) -> None:
    """The error names the architecture and the reason."""
    make, reason = REFUSED[name]
    random_model(make()).save_pretrained(tmp_path)
    with pytest.raises(ModelLoadError, match=f"architecture {name} can't be served: .*{reason}"):
        load(tmp_path)


def test_load_refuses_a_model_that_generates_no_text(tmp_path: Path) -> None:
    """An image model has no next token."""
    save("llama", tmp_path)
    with pytest.raises(ModelLoadError, match="architecture vit can't be served: it is no causal"):
        load_backend(config("vit"), Checkpoint(tmp_path), torch.float32, torch.device("cpu"), 16)


def test_load_refuses_quantised_weights(tmp_path: Path) -> None:
    """Packed integers must not be read as weights."""
    save("llama", tmp_path)
    quantised = config("llama", quantization_config={"quant_method": "awq"})
    with pytest.raises(ModelLoadError, match="quantised"):
        load_backend(quantised, Checkpoint(tmp_path), torch.float32, torch.device("cpu"), 16)


@pytest.mark.parametrize("name", ["gpt2", "mistral-window"])
def test_load_refuses_missing_tensors_of_modules(name: str, tmp_path: Path) -> None:
    """Transformers would start with random weights in their place."""
    model = save(name, tmp_path)
    assert name in MODULES
    state = model.state_dict()
    removed = next(key for key in state if "mlp" in key)
    del state[removed]
    model.save_pretrained(tmp_path, state_dict=state)
    with pytest.raises(ModelLoadError, match="missing"):
        load(tmp_path)


def test_forward_needs_a_cache(tmp_path: Path) -> None:
    """A backend that was given no cache says so."""
    for name in ("llama", "gpt2"):
        save(name, tmp_path / name)
        loaded = transformers.AutoConfig.from_pretrained(tmp_path / name)
        backend = load_backend(loaded, Checkpoint(tmp_path / name), torch.float32, torch.device("cpu"), 16)
        with pytest.raises(RuntimeError, match="allocate"):
            backend.forward(None)  # type: ignore[arg-type]
