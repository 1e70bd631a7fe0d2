"""Adapters in the native backend give PEFT's logits, and the same bits in every batch."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sluice_native
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from transformers import PreTrainedModel

from service.engine.models.checkpoint.adapter_files import Adapter, LowRank, read_adapter
from service.engine.models.interface.backend import Backend
from service.generation.errors import AdapterRejected
from tests.engine.folders import peft_adapters, tiny_models
from tests.engine.folders.tiny_models import Part, tokens
from tests.native.decoders import CONFIGS, Sequence, native, reference, step

MAX_RANK = 64
TOLERANCE = 1e-4
BLOCK_SIZE, NUM_BLOCKS = 16, 128
TYPES = ("float32", "bfloat16", "int8", "int4")
SETS = sluice_native.instruction_sets()
BASES = ("llama-biases", "qwen3-tied", "mistral-window")
MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")

Modules = list[tuple[str, NDArray[np.float32], NDArray[np.float32]]]


@pytest.fixture(scope="module", params=BASES)
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp(request.param)
    tiny_models.save(request.param, folder)
    return folder


def loaded(folder: Path) -> Backend[Any]:
    return tiny_models.load(folder, backend="native", block_size=BLOCK_SIZE)


def put(backend: Backend[Any], slot: int, folder: Path) -> None:
    backend.put_adapter(slot, read_adapter(folder, MAX_RANK))


@pytest.mark.slow
@pytest.mark.parametrize("shape", peft_adapters.SHAPES)
def test_logits_equal_those_of_peft_merged(base: Path, shape: str, tmp_path: Path) -> None:
    adapter = peft_adapters.save_adapter(base, tmp_path, **peft_adapters.SHAPES[shape])
    backend = loaded(base)
    put(backend, 0, adapter)
    ids = tokens(20)
    (logits,) = tiny_models.run(backend, [Part(ids, 0, 20, [2, 0], adapter=0)], BLOCK_SIZE)
    expected = peft_adapters.merged_reference(base, adapter, ids)
    torch.testing.assert_close(logits, expected, atol=TOLERANCE, rtol=TOLERANCE)


def test_two_adapters_and_the_base_share_a_batch(base: Path, tmp_path: Path) -> None:
    """Prompts of several adapters are computed together, and then a token of each; ranks and modules differ."""
    first = peft_adapters.save_adapter(base, tmp_path / "first", seed=1, r=MAX_RANK, std=0.05)
    second = peft_adapters.save_adapter(base, tmp_path / "second", seed=2, r=2, target_modules=["q_proj", "up_proj"])
    backend = loaded(base)
    put(backend, 0, first)
    put(backend, 3, second)
    folders = {3: second, 0: first}
    lengths, slots = (9, 17, 5, 12), (3, -1, 0, 3)
    texts = [tokens(length, seed) for seed, length in enumerate(lengths)]
    spans = [(0, length - 1) for length in lengths], [(length - 1, length) for length in lengths]
    found = [
        tiny_models.run(
            backend,
            [
                Part(text, start, end, [2 * index, 2 * index + 1], adapter=slot)
                for index, (text, (start, end), slot) in enumerate(zip(texts, part, slots, strict=True))
            ],
            BLOCK_SIZE,
        )
        for part in spans
    ]
    original = tiny_models.reload(base, torch.float32)
    for prompt, last, text, slot in zip(*found, texts, slots, strict=True):
        expected = (
            tiny_models.reference(original, text)
            if slot < 0
            else peft_adapters.merged_reference(base, folders[slot], text)
        )
        torch.testing.assert_close(torch.cat([prompt, last]), expected, atol=TOLERANCE, rtol=TOLERANCE)


def test_a_slot_can_be_reused(base: Path, tmp_path: Path) -> None:
    first = peft_adapters.save_adapter(base, tmp_path / "first", seed=1)
    second = peft_adapters.save_adapter(base, tmp_path / "second", seed=2)
    backend = loaded(base)
    put(backend, 1, first)
    backend.drop_adapter(1)
    put(backend, 1, second)
    (logits,) = tiny_models.run(backend, [Part(tokens(8), 0, 8, [0], adapter=1)], BLOCK_SIZE)
    expected = peft_adapters.merged_reference(base, second, tokens(8))
    torch.testing.assert_close(logits, expected, atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize(
    ("module", "outputs", "inputs", "text"),
    [
        ("model.layers.7.self_attn.q_proj", 64, 64, "the model has no such module; supported are down_proj, "),
        ("model.layers.0.self_attn.w_proj", 64, 64, "the model has no such module"),
        ("model.layers.0.input_layernorm", 64, 64, "the model has no such module"),
        (
            "model.layers.0.mlp.up_proj",
            64,
            64,
            r"its shape is \[64, 64\], but the model's weight has the shape \[96, 64\]",
        ),
    ],
)
def test_what_the_model_does_not_have_is_refused(base: Path, module: str, outputs: int, inputs: int, text: str) -> None:
    low_rank = LowRank(np.zeros((2, inputs), np.float32), np.zeros((outputs, 2), np.float32))
    with pytest.raises(AdapterRejected, match=text):
        loaded(base).put_adapter(0, Adapter(base, {module: low_rank}, "digest"))


def low_ranks(model: PreTrainedModel, seed: int, rank: int, modules: tuple[str, ...] = MODULES) -> Modules:
    """Return changes of the same magnitude as the weights."""
    generator = np.random.default_rng(seed)
    found: Modules = []
    for name, parameter in model.named_parameters():
        stem = name.removesuffix(".weight")
        if stem.rpartition(".")[2] in modules and parameter.ndim == 2:
            outputs, inputs = parameter.shape
            down, up = generator.normal(0, 0.2, (rank, inputs)), generator.normal(0, 0.3 / rank**0.5, (outputs, rank))
            found.append((stem, down.astype(np.float32), up.astype(np.float32)))
    return found


def merge(model: PreTrainedModel, modules: Modules) -> None:
    with torch.no_grad():
        for name, down, up in modules:
            model.get_submodule(name).weight += torch.from_numpy(up @ down)  # type: ignore[operator]


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize(
    ("weight_type", "allowed"), [("float32", 1e-5), ("bfloat16", 0.02), ("int8", 0.03), ("int4", 0.02)]
)
def test_adapters_are_floating_point_with_weights_of_every_type(
    weight_type: str, allowed: float, instruction_set: str
) -> None:
    """Adapters add their exact product to the weights, which are such that quantization does not change them."""
    model = reference(CONFIGS["llama, one kv head of 20"])
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.copy_(representable(parameter))
    modules = low_ranks(model, 1, 5)
    made = native(model, weight_type, instruction_set=instruction_set, num_threads=2)
    made.allocate(NUM_BLOCKS, BLOCK_SIZE)
    made.put_adapter(4, modules)
    ids = np.random.default_rng(0).integers(0, 203, 40).tolist()
    found = step(made, [(Sequence(ids, [3, 1, 2]), 40)], adapters=[4])[0]
    merge(model, modules)
    with torch.inference_mode():
        expected = model(torch.tensor([ids])).logits[0].numpy()
    assert np.linalg.norm(found - expected) <= allowed * np.linalg.norm(expected)


def representable(weight: torch.Tensor) -> torch.Tensor:
    """Return weights that every type represents exactly: integers from -8 to 7 times one factor.

    Every 32 columns include -8.
    """
    scale = weight.std() / 4
    levels = (weight / scale).round().clamp(-8, 7)
    levels[:, ::32] = -8
    levels[:, 1] = 7
    return levels * scale.bfloat16().float()


@cache
def model_with_adapters(name: str, weight_type: str, instruction_set: str) -> sluice_native.Model:
    source = reference(CONFIGS[name])
    model = native(source, weight_type, instruction_set=instruction_set)
    model.allocate(NUM_BLOCKS, BLOCK_SIZE)
    model.put_adapter(0, low_ranks(source, 1, 4))
    model.put_adapter(1, low_ranks(source, 2, 17, ("k_proj", "gate_proj", "down_proj")))
    return model


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("weight_type", TYPES)
@settings(max_examples=10)
@given(
    name=st.sampled_from(("qwen3", "llama, one kv head of 20")),
    work=st.lists(
        st.tuples(st.integers(-1, 1), st.lists(st.one_of(st.just(1), st.integers(1, 40)), min_size=1, max_size=3)),
        min_size=1,
        max_size=7,
    ),
    threads=st.integers(1, 4),
)
def test_rows_with_and_without_adapters_have_the_same_bits_in_any_company(
    instruction_set: str, weight_type: str, *, name: str, work: list[tuple[int, list[int]]], threads: int
) -> None:
    """The reference of a row without an adapter is computed by a model that has no adapters."""
    model = model_with_adapters(name, weight_type, instruction_set)
    plain = plain_model(name, weight_type, instruction_set)
    generator = np.random.default_rng(0)
    texts = [generator.integers(0, 203, sum(pieces)).tolist() for _, pieces in work]
    sequences = [Sequence(text, list(range(8 * index, 8 * index + 8))) for index, text in enumerate(texts)]
    together: list[list[NDArray[np.float32]]] = [[] for _ in work]
    for turn in range(3):
        now = [index for index, (_, pieces) in enumerate(work) if turn < len(pieces)]
        if not now:
            break
        found = step(
            model,
            [(sequences[index], work[index][1][turn]) for index in now],
            num_threads=threads,
            adapters=[work[index][0] for index in now],
        )
        for index, rows in zip(now, found, strict=True):
            together[index].append(rows)
    for text, (slot, _), parts in zip(texts, work, together, strict=True):
        alone = [(Sequence(text, list(range(8))), len(text))]
        expected = step(plain, alone) if slot < 0 else step(model, alone, num_threads=1, adapters=[slot])
        assert np.concatenate(parts).tobytes() == expected[0].tobytes()


@cache
def plain_model(name: str, weight_type: str, instruction_set: str) -> sluice_native.Model:
    model = native(reference(CONFIGS[name]), weight_type, instruction_set=instruction_set)
    model.allocate(NUM_BLOCKS, BLOCK_SIZE)
    return model


def test_memory_is_freed() -> None:
    model = native(reference(CONFIGS["qwen3"]))
    assert model.adapter_bytes == 0
    model.put_adapter(2, low_ranks(reference(CONFIGS["qwen3"]), 1, 4))
    held = model.adapter_bytes
    assert held > 0
    model.put_adapter(2, low_ranks(reference(CONFIGS["qwen3"]), 2, 4))
    assert model.adapter_bytes == held
    model.drop_adapter(2)
    assert model.adapter_bytes == 0


def pair(outputs: int = 144, inputs: int = 64, down_rank: int = 2, up_rank: int = 2) -> Any:
    return np.zeros((down_rank, inputs), np.float32), np.zeros((outputs, up_rank), np.float32)


Q_PROJ = "model.layers.0.self_attn.q_proj"


@pytest.mark.parametrize(
    ("slot", "modules", "message"),
    [
        (-1, [], "slot must be at least 0"),
        (0, [("model.norm", *pair())], r"modules\[0\]: no layer of the model has the module model.norm"),
        (0, [("model.embed_tokens", *pair())], r"modules\[0\]: no layer of the model has the module"),
        (0, [("lm_head", *pair())], r"modules\[0\]: no layer of the model has the module"),
        (0, [("model.layers.0.input_layernorm", *pair())], r"modules\[0\]: no layer of the model has the module"),
        (0, [(Q_PROJ, *pair(192)), (Q_PROJ, *pair(192))], r"modules\[1\]: .*q_proj is given twice"),
        (0, [(Q_PROJ, *pair(190))], r"modules\[0\]: .*q_proj has 64 inputs and 192 outputs, not 64 and 190"),
        (0, [(Q_PROJ, *pair(192, 65))], r"modules\[0\]: .*q_proj has 64 inputs and 192 outputs, not 65 and 192"),
        (0, [(Q_PROJ, *pair(192, 64, 0, 0))], r"modules\[0\]: the rank must be 1 to 4096"),
        (0, [(Q_PROJ, *pair(192, 64, 2, 3))], r"modules\[0\]: down must have as many rows as up has columns"),
        (0, [(Q_PROJ, pair()[0].astype(np.float64), pair()[1])], r"modules\[0\]: down must be float32"),
        (0, [(Q_PROJ, pair()[0], pair()[1].T)], r"modules\[0\]: up must be contiguous and a matrix"),
    ],
)
def test_modules_that_do_not_fit_are_refused(slot: int, modules: Modules, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plain_model("qwen3", "float32", "auto").put_adapter(slot, modules)


def test_slots_without_an_adapter_are_refused() -> None:
    model = plain_model("qwen3", "float32", "auto")
    with pytest.raises(ValueError, match=r"adapters\[0\] is 3; it must be the slot of an adapter, or -1 for none"):
        step(model, [(Sequence([1, 2], [0]), 2)], adapters=[3])
    with pytest.raises(ValueError, match="adapters must have 1 elements, not 2"):
        step(model, [(Sequence([1, 2], [0]), 2)], adapters=[-1, -1])
    with pytest.raises(ValueError, match="slot must be that of an adapter"):
        model.drop_adapter(3)
