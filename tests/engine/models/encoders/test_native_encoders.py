"""Encoders and cross-encoders of folders on the native step: transformers' vectors, with the same bits in any batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from numpy.typing import NDArray
from safetensors.torch import save_file

from service.engine.building.engines import BuiltCrossEncoder, BuiltEncoder, build_cross_encoder, build_encoder
from service.engine.interface.config import EngineConfig
from service.generation.errors import ModelLoadError
from service.generation.requests.embedding import EmbeddingRequest
from tests.engine.encoder_fakes import CONFIGS, modules, save_encoder
from tests.engine.models.checkpoint.test_models_checkpoint import edit
from tests.engine.pair_fakes import save_cross_encoder

pytest.importorskip("sluice_native")

LENGTHS = (1, 30, 2, 2, 17, 40, 5, 12, 3)
THREAD = EngineConfig(worker="thread")


def inputs_of(*lengths: int, limit: int = 40) -> list[NDArray[np.int64]]:
    rng = np.random.default_rng(0)
    return [rng.integers(7, 101, min(length, limit)) for length in lengths]


async def vectors(built: BuiltEncoder | BuiltCrossEncoder, *requests: list[NDArray[np.int64]]) -> list[Any]:
    """Return the engine's vectors of sequential requests."""
    async with built.engine as engine:
        return [np.array((await engine.embed(EmbeddingRequest("r", inputs))).vectors) for inputs in requests]


@pytest.mark.parametrize("pooling", ["mean", "cls", "lasttoken"])
@pytest.mark.parametrize("kind", [kind for kind in CONFIGS if kind != "mpnet"])
async def test_vectors_are_those_of_transformers(kind: str, pooling: str, tmp_path: Path) -> None:
    """The unit vectors equal those of transformers' states, and have the same bits batched and alone."""
    files = {"modules": modules("Transformer", "Pooling", "Normalize"), "pooling": {"pooling_mode": pooling}}
    model = save_encoder(kind, tmp_path, **files)
    built = build_encoder(tmp_path, THREAD, device="cpu")
    assert built.info.is_invariant
    inputs = inputs_of(*LENGTHS, limit=built.info.max_model_len)
    (batched, *alone) = await vectors(built, inputs, *([ids] for ids in inputs))
    assert np.array_equal(batched, np.concatenate(alone))
    for ids, vector in zip(inputs, batched, strict=True):
        with torch.inference_mode():
            states = model(input_ids=torch.from_numpy(ids)[None]).last_hidden_state[0].numpy()
        expected = {"mean": states.mean(0), "cls": states[0], "lasttoken": states[-1]}[pooling]
        assert np.abs(vector - expected / np.linalg.norm(expected)).max() < 1e-4


@pytest.mark.parametrize("is_mean", [False, True])
async def test_head_of_modernbert_follows_its_pooling(tmp_path: Path, *, is_mean: bool) -> None:
    """The scores equal transformers' for both poolings of the head, and have the same bits batched and alone."""
    save_cross_encoder("modernbert", tmp_path, config={"classifier_pooling": "mean" if is_mean else "cls"})
    model: Any = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    built = build_cross_encoder(tmp_path, THREAD, device="cpu")
    inputs = inputs_of(*LENGTHS)
    (batched, *alone) = await vectors(built, inputs, *([ids] for ids in inputs))
    assert np.array_equal(batched, np.concatenate(alone))
    for ids, score in zip(inputs, batched, strict=True):
        with torch.inference_mode():
            assert abs(score[0] - model(torch.from_numpy(ids)[None]).logits[0, 0].item()) < 1e-4


async def test_weights_are_found_by_other_names(tmp_path: Path) -> None:
    """Weights in bfloat16, of a model with a head, and with the old names of norms are read."""
    save_encoder("bert", tmp_path)
    edit(tmp_path, lambda tensors: tensors.update({name: value.bfloat16() for name, value in tensors.items()}))
    inputs = inputs_of(9)
    (expected,) = await vectors(build_encoder(tmp_path, THREAD, device="cpu", compute_dtype="float32"), inputs)

    def rename(tensors: dict[str, torch.Tensor]) -> None:
        for name in list(tensors):
            old = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
            tensors[f"bert.{old}"] = tensors.pop(name)

    edit(tmp_path, rename)
    (found,) = await vectors(build_encoder(tmp_path, THREAD, device="cpu", compute_dtype="float32"), inputs)
    assert np.array_equal(found, expected)


def test_missing_weights_are_rejected(tmp_path: Path) -> None:
    """The error names the tensor."""
    save_encoder("bert", tmp_path)
    edit(tmp_path, lambda tensors: tensors.pop("encoder.layer.1.output.dense.bias"))
    with pytest.raises(ModelLoadError, match=r"encoder\.layer\.1\.output\.dense\.bias is missing"):
        build_encoder(tmp_path, THREAD, device="cpu")


async def test_bidirectional_decoder_embeds(tmp_path: Path) -> None:
    """A model like EmbeddingGemma: tokens attend to later ones, then mean pooling and two Dense modules."""
    torch.manual_seed(0)
    config = transformers.Gemma3TextConfig(
        vocab_size=101,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=40,
        layer_types=["sliding_attention", "full_attention"],
        sliding_window=12,
        use_bidirectional_attention=True,
    )
    model: Any = transformers.Gemma3TextModel(config)
    model.eval()
    kinds = modules("Transformer", "Pooling", "Dense", "Dense", "Normalize")
    save_encoder("bert", tmp_path, modules=kinds, pooling={"pooling_mode_mean_tokens": True})
    model.save_pretrained(tmp_path)
    first, second = torch.nn.Linear(32, 48, bias=False), torch.nn.Linear(48, 20, bias=False)
    for folder, layer in (("2_Dense", first), ("3_Dense", second)):
        (tmp_path / folder).mkdir()
        values = {
            "in_features": layer.in_features,
            "out_features": layer.out_features,
            "bias": False,
            "activation_function": "torch.nn.modules.linear.Identity",
        }
        (tmp_path / folder / "config.json").write_text(json.dumps(values))
        save_file({"linear.weight": layer.weight.detach()}, tmp_path / folder / "model.safetensors")
    built = build_encoder(tmp_path, THREAD, device="cpu", compute_dtype="float32")
    assert (built.info.is_invariant, built.num_dimensions) == (True, 20)
    inputs = inputs_of(*LENGTHS)
    for ids, vector in zip(inputs, (await vectors(built, inputs))[0], strict=True):
        with torch.inference_mode():
            states = model(input_ids=torch.from_numpy(ids)[None]).last_hidden_state[0]
            expected = torch.nn.functional.normalize(second(first(states.mean(0))), dim=0).numpy()
        assert np.abs(vector - expected).max() < 1e-4


async def test_quantized_weights_make_similar_vectors(tmp_path: Path) -> None:
    """With int8 weights the vectors are near those of float32, and the fingerprint is another."""
    save_encoder("bert", tmp_path)
    exact, rounded = (
        build_encoder(tmp_path, EngineConfig(worker="thread", quantization=kind), device="cpu")
        for kind in (None, "int8")
    )
    assert (exact.info.dtype, rounded.info.dtype) == ("float32", "int8")
    assert exact.info.fingerprint != rounded.info.fingerprint
    inputs = inputs_of(*LENGTHS)
    (first,), (second,) = await vectors(exact, inputs), await vectors(rounded, inputs)
    cosines = (first * second).sum(1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    assert cosines.min() > 0.99
    assert not np.array_equal(first, second)
