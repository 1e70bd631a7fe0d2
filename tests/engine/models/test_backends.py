"""The table of backends: the backend that serves a model, and the error if none does or a forced one can't."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from service.engine.models.interface.model_spec import ModelSpec
from service.engine.models.selection.backends import BACKENDS, BackendRow, choose_backend
from service.engine.tokens.watermark import Watermark
from service.generation.errors import ModelLoadError
from tests.engine.block_backend import BlockBackend, SumSampler
from tests.engine.folders.tiny_models import (
    LEAN,
    MODULES,
    PLANNED,
    VOCAB_SIZE,
    Part,
    config,
    load,
    random_model,
    reference,
    run,
    save,
    spec,
    tokens,
)

LOGGER = "service.engine.models.selection.backends"

_SMALL: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}

REFUSED: dict[str, tuple[Any, str]] = {
    "bert": (lambda: config("bert", **_SMALL), "it is an encoder"),
    "recurrent_gemma": (
        lambda: config("recurrent_gemma", **{**_SMALL, "num_hidden_layers": 3}, lru_width=32, num_key_value_heads=1),
        "its cache cannot continue a text",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_load_refuses_what_it_cannot_serve(name: str, tmp_path: Path) -> None:
    """The error names the architecture and the reason."""
    make, reason = REFUSED[name]
    random_model(make()).save_pretrained(tmp_path)
    with pytest.raises(ModelLoadError, match=f"architecture {name} is not supported: .*{reason}"):
        load(tmp_path)


def test_load_refuses_a_model_that_generates_no_text(tmp_path: Path) -> None:
    """An image model, which has no next token, is rejected."""
    save("llama", tmp_path)
    with pytest.raises(ModelLoadError, match=r"architecture vit is not supported: .*it is no causal"):
        choose_backend(spec(tmp_path, model_config=config("vit")))


@pytest.mark.parametrize("name", ["gpt2", "mistral-window"])
def test_load_refuses_missing_tensors_of_modules(name: str, tmp_path: Path) -> None:
    """Missing tensors are an error, since transformers would use random weights instead."""
    model = save(name, tmp_path)
    state = model.state_dict()
    removed = next(key for key in state if "mlp" in key)
    del state[removed]
    model.save_pretrained(tmp_path, state_dict=state)
    with pytest.raises(ModelLoadError, match="missing"):
        load(tmp_path, backend="transformers")


def test_forward_needs_a_cache(tmp_path: Path) -> None:
    """A backend without a cache raises an error."""
    for name in ("llama", "gpt2"):
        save(name, tmp_path / name)
        source = spec(tmp_path / name)
        backend = choose_backend(source).load(source)
        with pytest.raises(RuntimeError, match="allocate"):
            backend.forward(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "expected"), [*((name, "torch") for name in LEAN | PLANNED), *((name, "transformers") for name in MODULES)]
)
def test_auto_takes_the_first_backend_that_supports_a_model(
    name: str, expected: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The first backend that supports a model serves it; the log has the reasons against the previous ones."""
    save(name, tmp_path)
    with caplog.at_level(logging.INFO, logger=LOGGER):
        assert choose_backend(spec(tmp_path)).name == expected
    refusals = [record.getMessage().split("not supported by the backend ")[1] for record in caplog.records]
    before = {"torch": ["native"], "transformers": ["native", "torch", "vision"]}[expected]
    assert [refusal.split(":")[0] for refusal in refusals] == before
    reasons = {"torch": "the model_type gpt2 has no layer plan", "vision": "it "}
    assert all(
        refusal.startswith(f"{name}: {reasons[name]}") for name, refusal in zip(before[1:], refusals[1:], strict=True)
    )


@pytest.mark.parametrize("name", ["llama3-rope", "qwen2-tied", "qwen3"])
def test_transformers_can_be_forced(name: str, tmp_path: Path) -> None:
    """The transformers backend gives the reference's logits also for a model that the torch backend supports."""
    model = save(name, tmp_path)
    assert choose_backend(spec(tmp_path), "transformers").name == "transformers"
    ids = tokens(20)
    logits = run(load(tmp_path, backend="transformers"), [Part(ids, 0, 20, [3, 1, 2])])[0]
    torch.testing.assert_close(logits, reference(model, ids), atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("backend", "name", "message"),
    [
        ("torch", "gpt2", r"architecture gpt2 is not supported: backend torch: the model_type gpt2 has no layer plan$"),
        ("numpy", "llama", r"engine\.backend must be auto or one of native, torch, vision, transformers, not 'numpy'"),
    ],
)
def test_a_backend_that_can_not_serve_is_refused_where_it_is_forced(
    backend: str, name: str, message: str, tmp_path: Path
) -> None:
    """No other backend is used instead, and the error has the reason."""
    save(name, tmp_path)
    with pytest.raises(ModelLoadError, match=message):
        choose_backend(spec(tmp_path), backend)


@pytest.mark.parametrize("backend", ["torch", "transformers"])
def test_backend_whose_rows_depend_on_the_batch_is_rejected_for_batch_invariance(backend: str, tmp_path: Path) -> None:
    save("llama", tmp_path)
    invariant = replace(spec(tmp_path, block_size=16), batch_invariant=True)
    message = rf"backend {backend}: its answers depend on the other requests of a step \(engine\.batch_invariant\)$"
    with pytest.raises(ModelLoadError, match=message):
        choose_backend(invariant, backend)
    assert choose_backend(invariant, "native").name == "native"


@pytest.mark.parametrize(
    ("name", "changes", "capability", "reason"),
    [
        ("llama", {}, (9, 0), None),
        ("llama", {}, (7, 5), r"its compute capability is 7\.5, the kernels need 8\.0"),
        ("llama", {"head_dim": 320}, (9, 0), "its heads have 320 numbers, the kernels' limit is 256"),
        ("gpt2", {}, (9, 0), "architecture gpt2 is not supported"),
    ],
)
def test_devices_are_invariant_where_the_kernels_support_the_model(
    name: str,
    changes: dict[str, Any],
    capability: tuple[int, int],
    reason: str | None,
    *,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    save(name, tmp_path)
    found = spec(tmp_path)
    for key, value in changes.items():
        setattr(found.config, key, value)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    asked = replace(found, device="cuda:0", batch_invariant=True)
    if reason is None:
        assert choose_backend(asked, "torch").variance_reason(asked) is None
        assert choose_backend(asked, "torch").variance_reason(replace(asked, batch_invariant=False)) is not None
    else:
        with pytest.raises(ModelLoadError, match=reason):
            choose_backend(asked, "torch")


@pytest.mark.parametrize("backend", ["torch", "transformers"])
@pytest.mark.parametrize("quantization", ["int8", "int4"])
def test_a_backend_without_quantised_weights_refuses_them(backend: str, quantization: str, tmp_path: Path) -> None:
    """No other type is used instead, and the error names the setting."""
    save("llama", tmp_path)
    message = rf"backend {backend}: it does not support {quantization} weights \(engine\.quantization\)$"
    with pytest.raises(ModelLoadError, match=message):
        choose_backend(replace(spec(tmp_path), quantization=quantization), backend)


def test_a_new_backend_is_a_row(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It precedes the others, may reject types and devices, and has the sampler for its logits."""

    def unsupported_reason(source: ModelSpec) -> str | None:
        return None if source.dtype == "bfloat16" else "it computes in bfloat16 only"

    backend, sampler = BlockBackend(), SumSampler()
    new = BackendRow("new", unsupported_reason, lambda _: backend, lambda *_: sampler)
    table = (new, *BACKENDS)
    save("llama", tmp_path)
    source = spec(tmp_path, torch.bfloat16)
    chosen = choose_backend(source, table=table)
    assert (chosen.load(source), chosen.sampler(backend, Watermark())) == (backend, sampler)
    with caplog.at_level(logging.INFO, logger=LOGGER):
        assert choose_backend(spec(tmp_path), table=table).name == "torch"
    assert "not supported by the backend new: it computes in bfloat16 only" in caplog.text
    with pytest.raises(ModelLoadError, match="backend new: it computes in bfloat16 only"):
        choose_backend(spec(tmp_path), "new", table)


def test_the_cache_of_a_backend_costs_what_its_tensors_take(tmp_path: Path) -> None:
    """A block of 8 tokens has keys and values of 2 heads of 16 floats in 3 layers."""
    save("llama", tmp_path)
    for name in ("torch", "transformers"):
        assert load(tmp_path, backend=name).bytes_per_block(8) == 8 * 2 * 2 * 16 * 4 * 3
