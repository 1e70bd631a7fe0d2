"""A row's logits have the same bits for every batch, chunking of the prompt, cached prefix, block table and threads."""

from __future__ import annotations

from functools import cache
from itertools import count

import numpy as np
import pytest
import sluice_native
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.native.decoders import CONFIGS, Sequence, native, reference, step

BLOCK_SIZE, NUM_BLOCKS = 16, 128
NAMES = ("qwen3", "mistral, window", "llama, one kv head of 20", "llama, 12 heads", "llama, wide")
# The type of weights, and the type of keys and values.
TYPES = (
    ("float32", "auto"),
    ("float32", "float16"),
    ("float32", "bfloat16"),
    ("float32", "int8"),
    ("bfloat16", "int8"),
    ("bfloat16", "auto"),
    ("int8", "float16"),
    ("int4", "auto"),
)


@cache
def model_of(name: str, types: tuple[str, str], instruction_set: str) -> sluice_native.Model:
    weight_type, cache_type = types
    model = native(reference(CONFIGS[name]), weight_type, cache_type=cache_type, instruction_set=instruction_set)
    model.allocate(NUM_BLOCKS, BLOCK_SIZE)
    return model


@st.composite
def works(draw: st.DrawFn) -> list[tuple[int, list[int]]]:
    """Draw, for each sequence, a seed of its tokens and the sizes of its chunks."""
    pieces = st.lists(st.one_of(st.just(1), st.integers(1, 40)), min_size=1, max_size=5)
    return draw(st.lists(st.tuples(st.integers(0, 3), pieces), min_size=1, max_size=6))


@pytest.mark.slow
@pytest.mark.parametrize("instruction_set", sluice_native.instruction_sets())
@pytest.mark.parametrize("types", TYPES, ids="-".join)
@settings(max_examples=25)
@given(name=st.sampled_from(NAMES), work=works(), threads=st.integers(1, 4), data=st.data())
def test_a_row_has_the_same_bits_in_any_company(
    instruction_set: str,
    types: tuple[str, str],
    *,
    name: str,
    work: list[tuple[int, list[int]]],
    threads: int,
    data: st.DataObject,
) -> None:
    model = model_of(name, types, instruction_set)
    blocks = data.draw(st.permutations(range(NUM_BLOCKS)))
    sequences = []
    for seed, pieces in work:
        tokens = tokens_of(model, seed, sum(pieces))
        need = -(-len(tokens) // BLOCK_SIZE)
        mine, blocks = blocks[:need], blocks[need:]
        sequences.append((Sequence(tokens, mine), pieces))
    together: list[list[NDArray[np.float32]]] = [[] for _ in sequences]
    for turn in count():
        # Sequences begin at different steps, so that prefills are batched with decodes.
        now = [
            (index, sequence, pieces[turn - index // 2])
            for index, (sequence, pieces) in enumerate(sequences)
            if 0 <= turn - index // 2 < len(pieces)
        ]
        if not now:
            break
        found = step(model, [(sequence, size) for _, sequence, size in now], num_threads=threads)
        for (index, _, _), rows in zip(now, found, strict=True):
            together[index].append(rows)
    for (sequence, _), parts in zip(sequences, together, strict=True):
        alone = Sequence(sequence.token_ids, list(range(len(sequence.blocks))))
        expected = step(model, [(alone, len(alone.token_ids))], num_threads=1)[0]
        assert np.concatenate(parts).tobytes() == expected.tobytes()


def tokens_of(model: sluice_native.Model, seed: int, length: int) -> list[int]:
    vocabulary = model.tensors()["model.embed_tokens.weight"][0]
    tokens: list[int] = np.random.default_rng(seed).integers(0, vocabulary, length).tolist()
    return tokens


@pytest.mark.parametrize("types", TYPES, ids="-".join)
def test_a_shared_prefix_gives_the_same_bits_as_a_prompt_of_ones_own(types: tuple[str, str]) -> None:
    model = model_of("qwen3", types, "auto")
    tokens = tokens_of(model, 0, 50)
    first = Sequence(tokens[:32] + tokens[:9], [5, 9, 2])
    step(model, [(first, 41)])
    second = Sequence(tokens, [5, 9, 7, 1])
    second.num_computed = 32
    found = step(model, [(second, 18)])[0]
    expected = step(model, [(Sequence(tokens, [20, 21, 22, 23]), 50)])[0]
    assert found.tobytes() == expected[32:].tobytes()


def test_what_a_block_held_before_has_no_effect() -> None:
    """NaNs of a failed sequence don't affect the next sequence in the same blocks."""
    model = model_of("qwen3", ("float32", "auto"), "auto")
    tokens = tokens_of(model, 1, 5)
    expected = step(model, [(Sequence(tokens, [0]), 5)])[0]
    broken = native(reference(CONFIGS["qwen3"]), "float32")
    name = "model.layers.0.self_attn.v_proj.weight"
    weight = np.full(broken.tensors()[name], np.nan, dtype=np.float32)
    good = reference(CONFIGS["qwen3"]).state_dict()[name]
    model.load(name, weight)
    step(model, [(Sequence(tokens_of(model, 2, 16), [1]), 16)])
    model.load(name, good)
    found = step(model, [(Sequence(tokens, [1]), 5)])[0]
    assert found.tobytes() == expected.tobytes()
