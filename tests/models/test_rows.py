"""Models whose attention can't be replaced, and models with a recurrent state, answer as transformers does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from service.engine.building.engines import build_engine
from service.engine.device.memory import cache_bytes
from service.engine.interface.config import EngineConfig
from service.engine.loading.generator import load_model
from service.engine.models.modules.rows_backend import RowsBackend
from service.generation.errors import ModelLoadError
from service.generation.requests.parameters import SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from tests.models.comparison import CONFIG, compare, prompts, reference
from tests.models.made import made

pytestmark = pytest.mark.slow

KINDS = {
    "bamba": "positions that its cache doesn't count",
    "bloom": "biases by distance in place of positions",
    "falcon": "attention of its own",
    "gptj": "attention of its own",
    "jamba": "a state in some layers, attention in others",
    "lfm2": "a convolution's last inputs",
    "mamba2": "a state and nothing else",
    "minimax": "a cache of its own in addition to keys and values",
    "qwen3_next": "a state from which a prompt's next chunk continues",
    "rwkv": "a state that is handed on, not written into",
    "xlstm": "a cache of its own and nothing else",
}


@pytest.mark.parametrize("kind", KINDS)
async def test_answers_equal_transformers(kind: str, tmp_path: Path) -> None:
    """Chunked prompts in a batch give equal answers, twice: no state is left of sequences that have ended."""
    config = replace(CONFIG, backend="transformers")
    outcome = await compare(made(kind, tmp_path), tmp_path, config)
    assert (outcome.backend, outcome.message) == ("transformers", "")
    assert isinstance(load_model(str(tmp_path), config, compute_dtype="float32").runner.backend, RowsBackend)


@pytest.mark.parametrize("kind", ["bloom", "qwen3_next"])
async def test_preempted_sequences_start_again(kind: str, tmp_path: Path) -> None:
    """A preempted sequence loses its state with its blocks, and its answer stays the same."""
    model = made(kind, tmp_path)
    crowded = replace(CONFIG, num_blocks=7, max_model_len=96, backend="transformers")
    outcome = await compare(model, tmp_path, crowded)
    assert (outcome.backend, outcome.message) == ("transformers", "")


async def test_choices_have_states_of_their_own(tmp_path: Path) -> None:
    """The choices of a request don't share the prompt's blocks, which are empty, and greedy choices are equal."""
    model = made("jamba", tmp_path)
    prompt = prompts()[2]
    expected = reference(model, prompt)[0]
    built = build_engine(str(tmp_path), CONFIG, compute_dtype="float32", device="cpu")
    stopping = StopParams(max_tokens=len(expected), ignore_eos=True)
    request = GenerationRequest("r", prompt, SamplingParams(temperature=0), stopping, n=3)
    async with built.engine as engine, engine.generate(request) as outputs:
        made_outputs = [output async for output in outputs]
    for index in range(3):
        tokens = [i for output in made_outputs if output.choice_index == index for i in output.token_ids]
        assert tokens == expected


def test_longrope_is_served_up_to_the_length_it_was_trained_for(tmp_path: Path) -> None:
    """Beyond this length, positions depend on the final length of a text; the error says so."""
    made("phi3", tmp_path)
    config = EngineConfig(num_blocks=16, worker="thread")
    assert load_model(str(tmp_path), config, compute_dtype="float32").config.max_model_len == 128
    with pytest.raises(ModelLoadError, match="max_model_len 200 exceeds 128, the length from which on the rotary"):
        load_model(str(tmp_path), replace(config, max_model_len=200))


async def test_dynamic_rope_is_served_up_to_the_length_it_was_trained_for(tmp_path: Path) -> None:
    """Up to this length, its frequencies are the default ones."""
    rope = {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 2.0}
    assert (await compare(made("llama", tmp_path, rope_parameters=rope), tmp_path)).message == ""


@pytest.mark.parametrize("kind", ["mamba2", "bloom"])
def test_a_model_without_a_length_of_its_own_takes_the_settings(kind: str, tmp_path: Path) -> None:
    """The length is `engine.max_model_len`, or 8,192 tokens if that is not set."""
    made(kind, tmp_path)
    config = EngineConfig(num_blocks=16, worker="thread")
    assert load_model(str(tmp_path), config).config.max_model_len == 8192
    assert load_model(str(tmp_path), replace(config, max_model_len=50_000)).config.max_model_len == 50_000


def test_states_bound_the_sequences_at_a_time(tmp_path: Path) -> None:
    """States use memory in addition to blocks, so less memory allows fewer sequences; none at all is an error."""
    made("mamba2", tmp_path)
    free, config = cache_bytes(), replace(CONFIG, backend="transformers")
    backend = load_model(str(tmp_path), config, compute_dtype="float32").runner.backend
    assert isinstance(backend, RowsBackend)
    assert backend.bytes_per_block(16) == 0
    share = 6.5 * backend.bytes_per_sequence / free
    loaded = load_model(str(tmp_path), config, compute_dtype="float32", cache_share=share)
    assert 1 <= loaded.config.max_batch_sequences <= 4
    assert not loaded.config.prefix_caching
    with pytest.raises(ModelLoadError, match=r"no memory is left for the state of a sequence of"):
        load_model(str(tmp_path), config, compute_dtype="float32", cache_share=0.1 * share / 6.5)
