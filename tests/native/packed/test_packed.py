"""Weights in the blocks of their files are multiplied with exactly the values that the blocks mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sluice_native
import torch
from numpy.typing import NDArray
from transformers import LlamaConfig, PreTrainedModel

from bench.engine.native.random_blocks import SCALES, numbers_of, random_blocks
from service.engine.models.plans.families.table import FAMILIES
from service.engine.models.plans.sources import origin_of
from tests.native.decoders import SMALL, Sequence, exact_plan, native, reference, rope, step

NUMBERS = {"float32": np.float32, "float16": np.float16}
KEYS = "model.layers.0.self_attn.k_proj.weight"
LENGTH = 40
CONFIG = LlamaConfig(
    **SMALL | {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2},
    rope_parameters=rope(),
    tie_word_embeddings=False,
)


def weights_of(kind: str, blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the numbers that blocks, or the bytes of numbers, mean."""
    return blocks.view(NUMBERS[kind]).astype(np.float32) if kind in NUMBERS else numbers_of(kind, blocks)


class Packed:
    """A model of random blocks, and transformers' model with the numbers that they mean.

    With `is_ordered`, the columns of the layers' blocks have the inputs in an order.
    """

    def __init__(self, kinds: list[str], *, is_ordered: bool = False) -> None:
        rng = np.random.default_rng(0)
        self.exact: PreTrainedModel = reference(CONFIG)
        self._blocks: dict[str, tuple[str, NDArray[np.uint8]]] = {}
        self._orders: dict[str, NDArray[np.int32]] = {}
        state = self.exact.state_dict()
        matrices = [name for name, tensor in state.items() if tensor.ndim == 2]
        for index, name in enumerate(matrices):
            kind, (rows, columns) = kinds[index % len(kinds)], state[name].shape
            if kind in NUMBERS:
                blocks = rng.normal(0, 0.1, (rows, columns)).astype(NUMBERS[kind]).view(np.uint8)
            else:
                blocks = random_blocks(kind, rows, columns, rng)
            self._blocks[name] = kind, blocks
            meant = weights_of(kind, blocks)
            if is_ordered and "proj" in name:  # the same order for all matrices with the same inputs
                order = np.random.default_rng(columns).permutation(columns).astype(np.int32)
                self._orders[name] = order
                meant = meant[:, np.argsort(order)]
            state[name].copy_(torch.from_numpy(meant))

    def native(self, **options: Any) -> sluice_native.Model:
        plan, tensors = exact_plan(CONFIG), FAMILIES["llama"].tensors

        def kind_of(name: str) -> str:
            return self._blocks[origin_of(name, plan, tensors).name][0]

        options = {"cache_type": "float32", **options}
        model = sluice_native.Model(plan.to_native(), weight_type="packed", kinds=kind_of, **options)
        for name in model.tensors():
            if name in self._blocks:
                model.load_blocks(name, self._blocks[name][1], self._orders.get(name))
            else:
                model.load(name, self.exact.state_dict()[name].numpy())
        model.allocate(num_blocks=16, block_size=16)
        return model

    def blocks(self, name: str) -> NDArray[np.uint8]:
        return self._blocks[name][1]

    @property
    def num_bytes(self) -> int:
        return sum(blocks.nbytes for _, blocks in self._blocks.values())

    def logits(self, token_ids: list[int]) -> NDArray[np.float32]:
        with torch.inference_mode():
            found: NDArray[np.float32] = self.exact(torch.tensor([token_ids])).logits[0].numpy()
        return found


def tokens_of(length: int, seed: int = 0) -> list[int]:
    tokens: list[int] = np.random.default_rng(seed).integers(0, CONFIG.vocab_size, length).tolist()
    return tokens


def divergence(found: NDArray[np.float32], exact: NDArray[np.float32]) -> float:
    """Return the mean divergence of the tokens' distributions in nats."""
    a, b = torch.from_numpy(found).double().log_softmax(-1), torch.from_numpy(exact).double().log_softmax(-1)
    return float((b.exp() * (b - a)).sum(-1).mean())


@pytest.mark.parametrize("instruction_set", sluice_native.instruction_sets())
@pytest.mark.parametrize("kind", [*SCALES, *NUMBERS])
def test_logits_are_those_of_the_numbers_that_the_blocks_mean(kind: str, instruction_set: str) -> None:
    packed, tokens = Packed([kind]), tokens_of(LENGTH)
    found = step(packed.native(instruction_set=instruction_set), [(Sequence(tokens, [3, 0, 7]), LENGTH)])[0]
    exact = packed.logits(tokens)
    assert exact.std() > 0.5  # otherwise the divergence would be small in any case
    assert divergence(found, exact) <= 1e-6


def test_tensors_of_different_formats_form_one_product() -> None:
    """Queries, keys and values are one matrix, as are gate and up."""
    packed, tokens = Packed(list(SCALES)), tokens_of(LENGTH)
    found = step(packed.native(), [(Sequence(tokens, [3, 0, 7]), LENGTH)])[0]
    assert divergence(found, packed.logits(tokens)) <= 1e-6


@pytest.mark.parametrize("instruction_set", sluice_native.instruction_sets())
def test_inputs_are_taken_in_the_order_of_the_columns(instruction_set: str) -> None:
    packed, tokens = Packed(["q4_k"], is_ordered=True), tokens_of(LENGTH)
    found = step(packed.native(instruction_set=instruction_set), [(Sequence(tokens, [3, 0, 7]), LENGTH)])[0]
    assert divergence(found, packed.logits(tokens)) <= 1e-6


@pytest.mark.parametrize(
    ("name", "order", "message"),
    [
        ("lm_head.weight", np.arange(256), "order: lm_head.weight can have none; matrices of attention and of dense"),
        (KEYS, np.zeros(256), "order: that of .*k_proj.weight must have each input once"),
        (KEYS, np.arange(9), "order: .*k_proj.weight has 256 inputs, not 9"),
        (KEYS, np.arange(256)[::-1], "order: .*k_proj.weight has another one than a tensor of the same matrix"),
    ],
)
def test_invalid_orders_are_rejected(name: str, order: NDArray[Any], message: str) -> None:
    packed = Packed(["q8_0"])
    with pytest.raises(ValueError, match=message):
        packed.native().load_blocks(name, packed.blocks(name), np.ascontiguousarray(order, np.int32))


@pytest.mark.parametrize("is_ordered", [False, True])
@pytest.mark.parametrize("instruction_set", sluice_native.instruction_sets())
def test_bits_do_not_depend_on_the_company(instruction_set: str, *, is_ordered: bool) -> None:
    """Every number of rows that is multiplied at a time gives a row the same bits."""
    packed = Packed(list(SCALES), is_ordered=is_ordered)
    model, tokens = packed.native(num_threads=2, instruction_set=instruction_set), tokens_of(LENGTH)
    expected = step(model, [(Sequence(tokens, [3, 0, 7]), LENGTH)])[0]
    sequence, other = Sequence(tokens, [1, 2, 4]), Sequence(tokens_of(64, 1), [5, 6, 8, 9])
    parts = [step(model, [(sequence, size), (other, 5)])[0] for size in (1, 2, 3, 4, 9, 13)]
    parts.append(step(model, [(sequence, LENGTH - 32)], num_threads=1)[0])
    assert np.concatenate(parts).tobytes() == expected.tobytes()


@pytest.mark.parametrize("is_ordered", [False, True])
def test_adapters_change_the_products_of_blocks(*, is_ordered: bool) -> None:
    packed, tokens, random = Packed(["q4_0"], is_ordered=is_ordered), tokens_of(LENGTH), np.random.default_rng(0)
    exact = native(packed.exact)
    exact.allocate(num_blocks=16, block_size=16)
    modules = [
        (
            name.removesuffix(".weight"),
            random.normal(0, 0.05, (8, shape[1])).astype(np.float32),
            random.normal(0, 0.05, (shape[0], 8)).astype(np.float32),
        )
        for name, shape in exact.tensors().items()
        if "_proj.weight" in name
    ]
    found = []
    for model in (packed.native(), exact):
        model.put_adapter(0, modules)
        found.append(step(model, [(Sequence(tokens, [3, 0, 7]), LENGTH)], adapters=[0])[0])
    assert divergence(found[0], found[1]) <= 1e-5
    assert divergence(packed.logits(tokens), found[1]) > 1e-3


@pytest.mark.parametrize("kind", SCALES)
def test_blocks_take_as_much_memory_as_in_their_files(kind: str) -> None:
    packed = Packed([kind])
    assert packed.native().weight_bytes <= 1.15 * packed.num_bytes


def test_values_that_are_not_finite_break_their_own_row_only() -> None:
    packed, tokens = Packed(["q4_k"]), tokens_of(LENGTH)
    model = packed.native()
    expected = step(model, [(Sequence(tokens, [3, 0, 7]), LENGTH)])[0]
    model.load("model.norm.weight", np.full(CONFIG.hidden_size, np.inf, np.float32))
    assert np.isnan(step(model, [(Sequence(tokens, [3, 0, 7]), LENGTH)])[0]).all()
    model.load("model.norm.weight", packed.exact.state_dict()["model.norm.weight"].numpy())
    assert step(model, [(Sequence(tokens, [3, 0, 7]), LENGTH)])[0].tobytes() == expected.tobytes()


def test_tied_head_may_have_a_bias() -> None:
    """The head's bias is a tensor of its own, and is added to the logits."""
    plan = replace(exact_plan(LlamaConfig(**SMALL, rope_parameters=rope())), is_tied=True)
    bias = np.arange(plan.vocab_size, dtype=np.float32)
    found = []
    for has_bias in (False, True):
        given = replace(plan, has_head_bias=has_bias).to_native()
        model = sluice_native.Model(given, weight_type="packed", kinds=lambda _: "float32")
        random = np.random.default_rng(0)
        for name, shape in model.tensors().items():
            if len(shape) == 2:
                model.load_blocks(name, random.normal(0, 0.1, shape).astype(np.float32).view(np.uint8))
            else:
                model.load(name, bias if name == "lm_head.bias" else np.ones(shape, np.float32))
        model.allocate(num_blocks=1, block_size=16)
        found.append(step(model, [(Sequence([5, 9], [0]), 2)])[0])
    np.testing.assert_array_equal(found[1], found[0] + bias)


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        (lambda _: "q9_z", "kinds: model.embed_tokens.weight has the unknown format q9_z"),
        (lambda _: "q4_k", "kinds: the rows of model.embed_tokens.weight must have a multiple of 256 columns, not 72"),
        (
            lambda name: "float16" if "k_proj" in name else "float32",
            "kinds: model.layers.0.self_attn.q_proj.weight shares 16 rows with a tensor of another format",
        ),
        (None, "kinds is missing"),
    ],
)
def test_invalid_formats_are_rejected(kinds: Any, message: str) -> None:
    plan = exact_plan(LlamaConfig(**SMALL, rope_parameters=rope()))
    with pytest.raises(ValueError, match=message):
        sluice_native.Model(plan.to_native(), weight_type="packed", kinds=kinds)


def test_blocks_of_another_shape_are_rejected() -> None:
    model = Packed(["q8_0"]).native()
    with pytest.raises(ValueError, match=r"blocks: lm_head.weight must have the shape \[203, 272\]"):
        model.load_blocks("lm_head.weight", np.zeros((203, 271), np.uint8))
    with pytest.raises(ValueError, match=r"name: model\.norm\.weight is not packed"):
        model.load_blocks("model.norm.weight", np.zeros((1, 256), np.uint8))
    with pytest.raises(ValueError, match=r"tensor: lm_head\.weight must be loaded from its blocks"):
        model.load("lm_head.weight", np.zeros((203, 256), np.float32))
