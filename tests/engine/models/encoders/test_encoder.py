"""Encoders give the vectors of an independent computation, alone and in batches."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor

from service.engine.building.engines import BuiltEncoder, build_encoder
from service.engine.interface.config import EngineConfig
from service.engine.models.checkpoint.encoders.sentence_files import SentenceFiles
from service.engine.models.encoders.encoder import load_encoder
from service.engine.models.encoders.pooling import pool
from service.engine.runner.encoder_runner import BatchEncoder, padded_batches
from service.generation.errors import ModelLoadError
from service.generation.requests.embedding import EmbeddingRequest, Vector
from service.settings.bundled_models import embedding_folder
from tests.engine.encoder_fakes import CONFIGS, modules, save_encoder

torch.set_num_threads(1)

TEXTS = [
    "Hello world",
    "The quick brown fox jumps over the lazy dog.",
    "  Ünïcode — naïve café 東京 🙂  ",
    "a",
    " ",
    "[SEP] spelled out [CLS]\n\ttabs",
    "word " * 600,
    "x" * 300,
    *("token " * count for count in range(1, 60, 7)),
]


def bundled() -> Path:
    folder = embedding_folder()
    assert folder is not None
    return folder


@torch.inference_mode()
def reference(folder: Path, texts: list[str], max_length: int) -> Tensor:
    """Compute vectors as in the model card: tokenize with padding and truncation, average over the mask, normalise."""
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    model: Any = transformers.AutoModel.from_pretrained(folder).eval()
    encoded = tokenizer(texts, padding=True, truncation=True, max_length=max_length, return_tensors="pt")
    states = model(**encoded).last_hidden_state
    mask = encoded["attention_mask"].unsqueeze(-1).expand(states.size()).float()
    means = torch.sum(states * mask, 1) / torch.clamp(mask.sum(1), min=1e-9)
    return torch.nn.functional.normalize(means, p=2, dim=1)


async def vectors(built: BuiltEncoder, *requests: list[list[int]]) -> list[list[Vector]]:
    """Return the engine's vectors of sequential requests."""
    async with built.engine as engine:
        return [
            list((await engine.embed(EmbeddingRequest("r", [np.array(ids) for ids in inputs]))).vectors)
            for inputs in requests
        ]


@pytest.mark.slow
async def test_bundled_model_makes_the_vectors_of_its_card() -> None:
    """Vectors are equal within 1e-5, batched and one by one, with texts truncated at 256 tokens."""
    built = build_encoder(bundled(), EngineConfig(worker="thread"), device="cpu")
    assert (built.num_dimensions, built.info.max_model_len) == (384, 256)
    inputs = [built.tokenizer.encode(text, add_special_tokens=True) for text in TEXTS]
    inputs = [ids if len(ids) <= 256 else [*ids[:255], ids[-1]] for ids in inputs]
    (batched, *alone) = await vectors(built, inputs, *([ids] for ids in inputs))
    expected = reference(bundled(), TEXTS, 256).numpy()
    assert np.abs(np.array(batched) - expected).max() < 1e-5
    assert np.abs(np.array([each for (each,) in alone]) - expected).max() < 1e-5


@pytest.mark.parametrize("pooling", ["mean", "cls", "lasttoken"])
@pytest.mark.parametrize("kind", CONFIGS)
def test_encoder_equals_the_model_alone(kind: str, pooling: str, tmp_path: Path) -> None:
    """Each family's vectors in padded batches equal transformers' vectors of each text without padding."""
    model = save_encoder(kind, tmp_path)
    files = SentenceFiles(tmp_path, pooling=pooling)  # type: ignore[arg-type]  # it is one of them
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    runner = BatchEncoder(load_encoder(config, files, "float32", "cpu"), num_threads=1)
    rng = np.random.default_rng(0)
    inputs = [rng.integers(7, 101, length) for length in (1, 30, 2, 2, 17, 30, 5, 12, 3)]
    for ids, vector in zip(inputs, runner.run(inputs), strict=True):
        with torch.inference_mode():
            states = model(input_ids=torch.from_numpy(ids)[None]).last_hidden_state[0]
        expected = {"mean": states.mean(0), "cls": states[0], "lasttoken": states[-1]}[pooling]
        assert np.abs(vector - expected.numpy()).max() < 1e-5
        assert np.abs(vector).max() > 0.01


def test_pooling_leaves_padding_out() -> None:
    """Padding has no effect on hand-computed vectors of two texts with two tokens and one."""
    states = torch.tensor([[[1.0, 2.0], [3.0, 6.0]], [[5.0, 7.0], [1e9, 1e9]]])
    lengths = torch.tensor([2, 1])
    assert pool(states, lengths, "mean").tolist() == [[2.0, 4.0], [5.0, 7.0]]
    assert pool(states, lengths, "cls").tolist() == [[1.0, 2.0], [5.0, 7.0]]
    assert pool(states, lengths, "lasttoken").tolist() == [[3.0, 6.0], [5.0, 7.0]]


@pytest.mark.parametrize(
    ("lengths", "free", "batches"),
    [
        ([], 0, []),
        ([5, 5, 5], 0, [[0, 1, 2]]),
        ([1, 9, 1, 9], 0, [[1, 3], [0, 2]]),
        ([1, 9, 1, 9], 100, [[1, 3, 0, 2]]),
        ([8, 7, 6, 5], 0, [[0, 1, 2], [3]]),
    ],
    ids=["none", "equal", "two lengths", "padding is free", "similar"],
)
def test_padded_batches_hold_similar_lengths(lengths: list[int], free: int, batches: list[list[int]]) -> None:
    """Texts are sorted by descending length; a batch ends where padding would cost more than another batch."""
    assert list(padded_batches(lengths, free)) == batches


@pytest.mark.parametrize(
    ("kind", "sizes", "expected"),
    [
        ("bert", {}, 256),
        ("mpnet", {}, 512),
        ("bert", {"max_batch_tokens": 200}, 200),
        ("bert", {"max_batch_sequences": 700}, 700),
    ],
    ids=["native", "modules", "fewer are wanted", "as many as the settings allow"],
)
def test_batches_on_a_cpu_are_short(kind: str, sizes: dict[str, Any], expected: int, tmp_path: Path) -> None:
    """Larger batches would hardly increase throughput and delay other requests."""
    save_encoder(kind, tmp_path)
    config = replace(EngineConfig(worker="thread"), **sizes)
    assert build_encoder(tmp_path, config, device="cpu").config.max_batch_tokens == expected


async def test_folder_decides_pooling_and_normalisation(tmp_path: Path) -> None:
    """CLS pooling and unit length are used if the folder's modules say so."""
    files = {
        "modules": modules("Transformer", "Pooling", "Normalize"),
        "pooling": {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False},
        "sentence_bert_config": {"max_seq_length": 16},
    }
    model = save_encoder("bert", tmp_path, **files)
    built = build_encoder(tmp_path, EngineConfig(worker="thread"), device="cpu")
    ((vector,),) = await vectors(built, [[5, 9, 20, 6]])
    with torch.inference_mode():
        state = model(input_ids=torch.tensor([[5, 9, 20, 6]])).last_hidden_state[0, 0]
    assert np.abs(vector - (state / state.norm()).numpy()).max() < 1e-6


def save_dense(
    folder: Path, num_inputs: int, num_outputs: int, activation: str, *, bias: bool = True
) -> torch.nn.Linear:
    """Write a Dense module's folder, as sentence-transformers does; return its layer."""
    folder.mkdir()
    said = {
        "in_features": num_inputs,
        "out_features": num_outputs,
        "bias": bias,
        "activation_function": f"torch.nn.modules.activation.{activation}",
    }
    (folder / "config.json").write_text(json.dumps(said))
    layer = torch.nn.Linear(num_inputs, num_outputs, bias=bias)
    save_file(
        {f"linear.{name}": tensor.detach() for name, tensor in layer.named_parameters()}, folder / "model.safetensors"
    )
    return layer


async def test_dense_modules_follow_the_pooling(tmp_path: Path) -> None:
    """Two layers, with and without bias and activation, equal torch's; another weight has another fingerprint."""
    kinds = modules("Transformer", "Pooling", "Dense", "Dense", "Normalize")
    model = save_encoder("bert", tmp_path, modules=kinds, pooling={"pooling_mode_mean_tokens": True})
    first = save_dense(tmp_path / "2_Dense", 32, 20, "Tanh")
    second = save_dense(tmp_path / "3_Dense", 20, 12, "Identity", bias=False)
    built = build_encoder(tmp_path, EngineConfig(worker="thread"), device="cpu")
    ((vector,),) = await vectors(built, [[5, 9, 20, 6]])
    with torch.inference_mode():
        mean = model(input_ids=torch.tensor([[5, 9, 20, 6]])).last_hidden_state[0].mean(0)
        expected = torch.nn.functional.normalize(second(torch.tanh(first(mean))), dim=0)
    assert built.num_dimensions == len(vector) == 12
    assert np.abs(vector - expected.numpy()).max() < 1e-5
    save_file({"linear.weight": second.weight.detach() * 2}, tmp_path / "3_Dense/model.safetensors")
    assert (
        build_encoder(tmp_path, EngineConfig(worker="thread"), device="cpu").info.fingerprint != built.info.fingerprint
    )


def test_dense_module_of_another_shape_is_refused(tmp_path: Path) -> None:
    """A Dense module of a wrong shape is rejected, and so is an unknown activation, by its name."""
    kinds = modules("Transformer", "Pooling", "Dense")
    save_encoder("bert", tmp_path, modules=kinds, pooling={"pooling_mode_mean_tokens": True})
    save_dense(tmp_path / "2_Dense", 32, 20, "Tanh")
    file = tmp_path / "2_Dense/config.json"
    said = json.loads(file.read_text())
    file.write_text(json.dumps(said | {"out_features": 21}))
    with pytest.raises(ModelLoadError, match=r"linear\.weight has the shape \[20, 32\]"):
        build_encoder(tmp_path, EngineConfig(worker="thread"), device="cpu")
    file.write_text(json.dumps(said | {"activation_function": "torch.nn.modules.activation.Softmax"}))
    with pytest.raises(ModelLoadError, match=r"activation_function must be one of Identity, Tanh.*, not Softmax"):
        build_encoder(tmp_path, EngineConfig(worker="thread"), device="cpu")


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_dense_module_of_another_type_is_refused(backend: Any, tmp_path: Path) -> None:
    """The bits of 8-bit numbers are not read as their values."""
    kinds = modules("Transformer", "Pooling", "Dense")
    save_encoder("bert", tmp_path, modules=kinds, pooling={"pooling_mode_mean_tokens": True})
    layer = save_dense(tmp_path / "2_Dense", 32, 20, "Tanh", bias=False)
    weight = layer.weight.detach().to(torch.float8_e4m3fn)
    save_file({"linear.weight": weight}, tmp_path / "2_Dense/model.safetensors")
    with pytest.raises(ModelLoadError, match=r"linear\.weight has the type F8_E4M3; weights are F32, F16 or BF16"):
        build_encoder(tmp_path, EngineConfig(worker="thread", backend=backend), device="cpu")


async def test_embedding_decoder_is_served_by_its_modules(tmp_path: Path) -> None:
    """A model like Qwen3-Embedding is served: causal weights, last-token pooling at unit length, prompts in a file."""
    prompts = {"query": "Instruct: search\nQuery:", "document": ""}
    torch.manual_seed(0)
    causal: Any = transformers.Qwen3ForCausalLM(CONFIGS["qwen3"]())
    save_encoder(
        "qwen3",
        tmp_path,
        modules=modules("Transformer", "Pooling", "Normalize"),
        pooling={"pooling_mode_lasttoken": True, "include_prompt": True},
        config_sentence_transformers={"prompts": prompts, "default_prompt_name": None},
    )
    causal.eval().save_pretrained(tmp_path)
    built = build_encoder(tmp_path, EngineConfig(worker="thread"), device="cpu")
    assert (built.info.architecture, built.description.prompts) == ("Qwen3ForCausalLM", prompts)
    inputs = [[9, 8, 7, 6], [12, 13], [20, 21, 22, 23, 24, 25, 26]]
    (batched,) = await vectors(built, inputs)
    for ids, vector in zip(inputs, batched, strict=True):
        with torch.inference_mode():
            state = causal.model(input_ids=torch.tensor([ids])).last_hidden_state[0, -1]
        assert np.abs(vector - (state / state.norm()).numpy()).max() < 1e-5
