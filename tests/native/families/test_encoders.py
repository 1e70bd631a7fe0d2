"""Every family of encoders: transformers' vectors and scores, and the promises of the native step, on small models."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import sluice_native
import torch
import transformers
from numpy.typing import NDArray

from service.engine.models.native.encoder import TextVectors
from service.engine.models.plans.families.encoders.table import encoder_family
from service.engine.models.plans.families.table import family_plan, plan_of
from service.engine.models.plans.plan import PlanUnsupportedError
from service.engine.models.plans.sources import read_tensors
from tests.models.shapes import VOCAB_SIZE, small

LENGTHS = (1, 30, 2, 90, 17, 64, 65, 12, 3)  # in tokens; blocks of the cache have 64
# The models by name: the type of a configuration, and options that its small model does not have.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("bert", {}),
    "bert, relu": ("bert", {"hidden_act": "relu", "type_vocab_size": 3}),
    "distilbert": ("distilbert", {"dim": 64, "hidden_dim": 96, "n_heads": 4, "n_layers": 4}),
    "roberta": ("roberta", {"pad_token_id": 1}),
    "xlm-roberta": ("xlm-roberta", {"pad_token_id": 1}),
    "modernbert": ("modernbert", {"local_attention": 10}),
    "modernbert, biases": (
        "modernbert",
        {"local_attention": 40, "attention_bias": True, "mlp_bias": True, "norm_bias": True},
    ),
    "qwen3": ("qwen3", {}),
    "llama": ("llama", {}),
    "qwen3_moe": ("qwen3_moe", {}),
    "gemma3_text": ("gemma3_text", {"use_bidirectional_attention": True, "sliding_window": 20}),
}
TYPES = ("float32", "bfloat16", "int8", "int4")
COSINES = {"float32": 1 - 1e-6, "bfloat16": 0.999, "int8": 0.995, "int4": 0.8}


@cache
def model_of(name: str) -> Any:
    """Return a small random transformers model whose states differ clearly."""
    kind, options = MODELS[name]
    torch.manual_seed(0)
    model: Any = transformers.AutoModel.from_config(small(kind, **options))  # type: ignore[no-untyped-call]
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.empty_like(parameter).normal_(std=0.15 if parameter.dim() > 1 else 0.05)
            parameter.copy_(noise if parameter.dim() > 1 else parameter + noise)
    return model.eval()


def native(name: str, weight_type: str = "float32", **options: Any) -> sluice_native.Model:
    model = model_of(name)
    family = encoder_family(model.config).family
    plan = family_plan(family, model.config)
    made = sluice_native.Model(plan.to_native(), weight_type=weight_type, **options)
    stored = {f"{model.base_model_prefix}.{key}": value for key, value in model.state_dict().items()}
    tensors = family.tensors_in(stored.__contains__, plan)

    def take(key: str, shape: tuple[int, ...], part: Any = None) -> NDArray[np.float32]:
        found = stored[key]
        assert tuple(found.shape) == shape
        array: NDArray[np.float32] = (found if part is None else found[part.start : part.end]).numpy()
        return array

    for key, array in read_tensors(made.tensors(), plan, tensors, take):
        made.load(key, array)
    assert made.missing() == []
    return made


def texts(*lengths: int) -> list[NDArray[np.int32]]:
    return [np.random.default_rng(length).integers(2, VOCAB_SIZE, length, np.int32) for length in lengths]


def encode(model: sluice_native.Model, given: list[NDArray[np.int32]], **options: Any) -> list[NDArray[np.float32]]:
    """Return the states of all tokens of each text."""
    offsets = np.cumsum([0, *map(len, given)], dtype=np.int32)
    rows = TextVectors("mean").rows(offsets)
    states = model.encode(np.concatenate(given), offsets, rows, **options)
    return np.split(states, offsets[1:-1])


def states_of(model: Any, token_ids: NDArray[np.int32], **more: Any) -> NDArray[np.float32]:
    with torch.inference_mode():
        states = model(torch.from_numpy(token_ids)[None].long(), **more).last_hidden_state
    found: NDArray[np.float32] = states[0].float().numpy()
    return found


@pytest.mark.parametrize("name", MODELS)
def test_states_are_those_of_transformers(name: str) -> None:
    """The states of all tokens equal transformers' of each text alone, within 1e-4."""
    given = texts(*LENGTHS)
    for token_ids, states in zip(given, encode(native(name, num_threads=2), given), strict=True):
        assert np.abs(states - states_of(model_of(name), token_ids)).max() < 1e-4
        assert np.abs(states).max() > 0.1


@pytest.mark.parametrize("weight_type", TYPES)
@pytest.mark.parametrize("name", ["bert", "modernbert", "qwen3_moe", "gemma3_text"])
def test_bits_do_not_depend_on_company(name: str, weight_type: str) -> None:
    """A text's states have the same bits alone, among other texts and with other numbers of threads."""
    model, given = native(name, weight_type), texts(*LENGTHS)
    together = encode(model, given)
    for token_ids, states in zip(given, together, strict=True):
        assert np.array_equal(encode(model, [token_ids])[0], states)
    shuffled = encode(model, given[::-1], num_threads=3)
    assert all(np.array_equal(*each) for each in zip(shuffled[::-1], together, strict=True))


@pytest.mark.parametrize("weight_type", TYPES)
@pytest.mark.parametrize("name", ["bert", "modernbert", "qwen3", "gemma3_text"])
def test_smaller_weights_make_similar_vectors(name: str, weight_type: str) -> None:
    """The cosine of mean vectors with those of float32 weights is near 1."""
    given = texts(*LENGTHS)
    for exact, states in zip(encode(native(name), given), encode(native(name, weight_type), given), strict=True):
        first, second = exact.mean(0), states.mean(0)
        cosine = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
        assert cosine > COSINES[weight_type]


def test_types_of_tokens_are_added() -> None:
    """Types change BERT's states as they change transformers'."""
    (token_ids,) = texts(20)
    types = np.repeat(np.array([0, 1], np.int32), 10)
    expected = states_of(model_of("bert"), token_ids, token_type_ids=torch.from_numpy(types)[None].long())
    (states,) = encode(native("bert"), [token_ids], types=types)
    assert np.abs(states - expected).max() < 1e-4
    assert np.abs(states - states_of(model_of("bert"), token_ids)).max() > 0.01


def test_only_chosen_rows_are_returned() -> None:
    """The states of some tokens, in any order, have the bits of those of all tokens."""
    model, given = native("qwen3"), texts(5, 9)
    whole = np.concatenate(encode(model, given))
    rows = np.array([13, 4, 0], np.int32)
    assert np.array_equal(model.encode(np.concatenate(given), np.array([0, 5, 14], np.int32), rows), whole[rows])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"token_ids": [1, VOCAB_SIZE, 1]}, r"token_ids\[1\] is 101; the vocabulary has the ids 0 to 100"),
        ({"row_offsets": [0, 2, 2, 3]}, r"row_offsets\[2\] is 2; each text needs a token"),
        ({"row_offsets": [1, 3]}, r"row_offsets\[0\] is 1; the first text begins at 0"),
        ({"row_offsets": [0, 2]}, r"row_offsets\[1\] is 2; the last text ends at the end"),
        ({"row_offsets": [0, 4, 3]}, r"row_offsets\[1\] is 4; each text needs a token, and there are 3"),
        ({"row_offsets": [0]}, "row_offsets must have at least two elements"),
        ({"output_rows": [3]}, r"output_rows\[0\] is 3; the batch has the tokens 0 to 2"),
        ({"types": [0, 1, 2]}, r"types\[2\] is 2; the model has the types 0 to 1"),
        ({"types": [0, 1]}, "types must have 3 elements, not 2"),
        ({"token_ids": [1] * 257, "row_offsets": [0, 257]}, r"row_offsets\[1\] is 257; a text has at most 256 tokens"),
    ],
)
def test_invalid_arguments_are_rejected(change: dict[str, Any], problem: str) -> None:
    """The error names the array and the element."""
    arguments: dict[str, Any] = {"token_ids": [1, 2, 3], "row_offsets": [0, 3], "output_rows": [0]}
    arrays: dict[str, Any] = {name: np.array(value, np.int32) for name, value in (arguments | change).items()}
    with pytest.raises(ValueError, match=f"^{problem}"):
        native("bert").encode(**arrays)


def test_recurrent_layers_need_a_head() -> None:
    """A decoder with states of its sequences has no plan as an embedder, and the step rejects one."""
    config = small("lfm2")
    with pytest.raises(PlanUnsupportedError, match="recurrent layers"):
        family_plan(encoder_family(config).family, config)
    plan = plan_of(config).to_native() | {"has_head": False, "is_tied": False}
    with pytest.raises(ValueError, match=r"^layers\[\d+\]\.recurrent must be None in a plan without a head"):
        sluice_native.Model(plan)


def test_plans_without_a_head_have_no_cache() -> None:
    """A plan without a head only encodes, one with a head only steps, and a bidirectional decoder doesn't generate."""
    with pytest.raises(RuntimeError, match=r"allocate\(\) of a plan without a head"):
        native("qwen3").allocate(4, 16)
    config = model_of("qwen3").config
    decoder = sluice_native.Model(plan_of(config).to_native())
    for name, shape in decoder.tensors().items():
        decoder.load(name, np.zeros(shape, np.float32))
    with pytest.raises(RuntimeError, match=r"encode\(\) of a plan with a head"):
        encode(decoder, texts(3))
    with pytest.raises(PlanUnsupportedError, match="attend to later ones"):
        plan_of(model_of("gemma3_text").config)
