"""The native backend: which models it supports, transformers' own logits, and errors for invalid files."""

from __future__ import annotations

import asyncio
from array import array
from collections import abc
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import pytest
import sluice_native
import torch
from safetensors.torch import save_file
from torch import Tensor

from service.engine.building.engines import build_engine
from service.engine.core import batch
from service.engine.interface.config import EngineConfig
from service.engine.models.interface.backend import Backend
from service.engine.models.native.backend import NativeBackend, native_unsupported_reason
from service.engine.models.plans.families.table import plan_of
from service.engine.models.plans.family import LLAMA_TENSORS
from service.engine.models.selection.backends import choose_backend
from service.generation.errors import ModelLoadError
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from tests.engine.fakes import read
from tests.engine.folders.tiny_models import (
    LEAN,
    NUM_BLOCKS,
    Part,
    config,
    load,
    reference,
    reload,
    run,
    save,
    spec,
    tokens,
)
from tests.native.decoders import CONFIGS, native_plan

BLOCK_SIZE = 16
LENGTH = 45
SERVED = (*LEAN, "mistral-window", "qwen2-window")
FOLDER = Path(__file__).parents[2] / "demo" / "model"


def loaded(folder: Path, dtype: torch.dtype = torch.float32) -> Backend[Any]:
    return load(folder, dtype, "native", BLOCK_SIZE)


def in_pieces(backend: Backend[Any], ids: list[int], ends: abc.Sequence[int], table: list[int]) -> Tensor:
    parts = [Part(ids, start, end, table) for start, end in zip((0, *ends), (*ends, len(ids)), strict=True)]
    return torch.cat([run(backend, [part], BLOCK_SIZE)[0].clone() for part in parts])


@pytest.mark.parametrize("name", SERVED)
def test_auto_takes_it_and_its_logits_are_the_references(name: str, tmp_path: Path) -> None:
    """In float32, a prompt has the reference's logits, whole and in chunks."""
    model = save(name, tmp_path)
    assert choose_backend(spec(tmp_path, block_size=BLOCK_SIZE)).name == "native"
    ids, backend = tokens(LENGTH), loaded(tmp_path)
    for ends in ((), (20, 21, 22), range(1, LENGTH)):
        logits = in_pieces(backend, ids, ends, [31, 2, 17])
        torch.testing.assert_close(logits, reference(model, ids), atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", ["llama3-rope", "qwen2-tied", "qwen3", "mistral-window"])
def test_logits_in_bfloat16_are_as_good_as_the_references(name: str, tmp_path: Path) -> None:
    """The error against float32 is at most twice that of transformers' own bfloat16, mean and largest."""
    save(name, tmp_path, torch.bfloat16)
    ids = tokens(LENGTH)
    exact = reference(reload(tmp_path, torch.float32), ids)
    theirs = (reference(reload(tmp_path, torch.bfloat16), ids) - exact).abs()
    ours = (in_pieces(loaded(tmp_path, torch.bfloat16), ids, (20, 21), [3, 1, 2]) - exact).abs()
    assert ours.mean() <= 2 * theirs.mean()
    assert ours.max() <= 2 * theirs.max()


def test_its_arithmetic_is_a_version_and_the_instruction_set_in_use(tmp_path: Path) -> None:
    """The arithmetic's name differs where bits may differ, and so does the fingerprint."""
    save("llama", tmp_path)
    source = spec(tmp_path, block_size=BLOCK_SIZE)
    used = sluice_native.Model(native_plan(source.config)).instruction_set
    assert choose_backend(source).arithmetic(source) == f"{version('sluice-native')} {used}"


@pytest.mark.parametrize("quantization", ["int8", "int4"])
def test_quantised_weights_are_chosen_by_a_setting(quantization: Literal["int8", "int4"]) -> None:
    """The description names the quantization, and the fingerprint differs from that of other types."""
    sizes = EngineConfig(num_blocks=24, worker="thread")
    plain = build_engine(str(FOLDER), sizes)
    rounded = build_engine(str(FOLDER), replace(sizes, quantization=quantization))
    assert rounded.info.dtype == quantization
    assert rounded.info.fingerprint != plain.info.fingerprint
    with pytest.raises(ModelLoadError, match=f"with engine.quantization {quantization}, dtype can't be float32"):
        build_engine(str(FOLDER), replace(sizes, quantization=quantization), compute_dtype="float32")


def test_fewer_bits_lie_further_from_the_weights_logits(tmp_path: Path) -> None:
    model, ids, errors = save("llama", tmp_path), tokens(LENGTH), []
    exact = reference(model, ids)
    for quantization in (None, "int8", "int4"):
        source = replace(spec(tmp_path, block_size=BLOCK_SIZE), quantization=quantization)
        backend = choose_backend(source).load(source)
        backend.allocate(NUM_BLOCKS, BLOCK_SIZE)
        errors.append(float((in_pieces(backend, ids, (20, 21), [3, 1, 2]) - exact).std() / exact.std()))
    assert errors[0] < 1e-4 < errors[1] < errors[2] < 0.5


REFUSALS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "gpu": ({}, {"device": "cuda"}, "it computes on CPUs, not on cuda"),
    "half": ({}, {"dtype": "float16"}, "it has no arithmetic in float16"),
    "block": ({}, {"block_size": 8}, "engine.block_size must be a multiple of 16 for it, not 8"),
    "activation": ({"hidden_act": "tanh"}, {}, "hidden_act is 'tanh'"),
    "rope": (
        {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}},
        {},
        "rope_parameters.rope_type is 'dynamic'",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_it_says_why_it_can_not_serve_a_model(case: str) -> None:
    """A model whose arithmetic is unsupported is left to the other backends."""
    values, arguments, reason = REFUSALS[case]
    usual: dict[str, Any] = {"dtype": "float32", "device": "cpu", "block_size": BLOCK_SIZE}
    assert native_unsupported_reason(config("llama", **values), **usual | arguments) == reason


def test_a_build_for_another_cpu_is_left_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the CPU has none of the module's instruction sets, the model is left to the other backends."""
    monkeypatch.setattr(sluice_native, "instruction_sets", list)
    refusal = native_unsupported_reason(config("llama"), "float32", "cpu", BLOCK_SIZE)
    assert refusal is not None
    assert "sluice doctor" in refusal


def test_another_architecture_is_refused() -> None:
    refusal = native_unsupported_reason(config("gpt2"), "float32", "cpu", BLOCK_SIZE)
    assert refusal == "the model_type gpt2 has no layer plan"


def _without_a_tensor(state: dict[str, Tensor]) -> None:
    del state["model.layers.1.mlp.up_proj.weight"]


def _with_one_too_many(state: dict[str, Tensor]) -> None:
    state["model.layers.1.mlp.extra.weight"] = torch.zeros(3)


def _with_a_wrong_shape(state: dict[str, Tensor]) -> None:
    state["model.norm.weight"] = torch.ones(65)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_without_a_tensor, r"model\.layers\.1\.mlp\.up_proj\.weight"),
        (_with_one_too_many, r"model\.layers\.1\.mlp\.extra\.weight"),
        (_with_a_wrong_shape, r"model\.norm\.weight .*65"),
    ],
)
def test_a_wrong_checkpoint_does_not_load(
    change: abc.Callable[[dict[str, Tensor]], None], message: str, tmp_path: Path
) -> None:
    """The error names the tensor."""
    state = {name: tensor.clone() for name, tensor in save("llama", tmp_path).state_dict().items()}
    change(state)
    save_file(state, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelLoadError, match=message):
        loaded(tmp_path)


def test_forward_needs_a_cache(tmp_path: Path) -> None:
    save("llama", tmp_path)
    source = spec(tmp_path, block_size=BLOCK_SIZE)
    backend = choose_backend(source, "native").load(source)
    with pytest.raises(RuntimeError, match="allocate"):
        run(backend, [Part([1, 2], 0, 2, [0])], BLOCK_SIZE)


def test_the_cache_costs_what_it_takes(tmp_path: Path) -> None:
    """A block of 16 tokens has the keys and values of 2 heads of 16 numbers in 3 layers, in float32."""
    save("llama", tmp_path)
    assert loaded(tmp_path).bytes_per_block(BLOCK_SIZE) == 16 * 2 * 2 * 16 * 4 * 3


@pytest.mark.slow
async def test_an_answer_is_the_same_alone_and_in_company() -> None:
    """Tokens and logprobs are bitwise equal alone, in a batch, after a preemption, and with a cached prompt.

    So are those of clients' batches, whose steps end early whenever another request arrives.
    """
    sizes = EngineConfig(num_blocks=24, num_threads=2, max_model_len=384, max_batch_tokens=40, max_batch_sequences=8)
    built = build_engine(str(FOLDER), sizes)
    prompts = [built.tokenizer.encode("One, two, three, four, five. " * count) for count in (1, 2, 4, 7, 4, 2)]

    async def ask(index: int, *, is_batch: bool = False) -> list[tuple[int, float]]:
        wanted = GenerationRequest(
            f"r{index}",
            prompts[index],
            SamplingParams(seed=index, temperature=1.0),
            StopParams(max_tokens=150, ignore_eos=True),
            logprobs=LogprobsOptions(),
            is_batch=is_batch,
        )
        async with engine.generate(wanted) as outputs:
            return [(each.token_id, each.logprob) for output in await read(outputs) for each in output.logprobs]

    async with built.engine as engine:
        alone = [await ask(index) for index in range(len(prompts))]
        together = await asyncio.gather(*(ask(index) for index in range(len(prompts))))
        assert engine.stats().num_preemptions > 0
        batch_tasks = [asyncio.create_task(ask(index, is_batch=True)) for index in range(len(prompts))]
        others = [await ask(index) for index in range(len(prompts))]
        in_batches = await asyncio.gather(*batch_tasks)
    assert together == alone == others == in_batches
    assert all(len(answer) == 150 for answer in alone)


class CountedThreads:
    """A native model of five million weights that records the number of threads of each step."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def tensors(self) -> dict[str, tuple[int, ...]]:
        return {"weight": (5_000, 1_000)}

    def step(self, *_: Any, num_threads: int, **__: Any) -> None:
        self.seen.append(num_threads)


def test_a_step_has_the_threads_that_it_has_work_for() -> None:
    """A token of five million weights uses two threads, more tokens use more, and at most the allowed number."""
    model: Any = CountedThreads()
    for most in (1, 8):
        backend = NativeBackend(model, plan_of(CONFIGS["llama"]), LLAMA_TENSORS, most)
        backend.prepare_thread(1)
        for num_tokens in (1, 3, 64):
            backend.forward(batch.lay_out([batch.BatchEntry([0] * num_tokens, 0, [array("i", range(4))], 1)], 16))
    assert model.seen == [1, 1, 1, 2, 6, 8]
