"""The table of backends, and the choice of one for a model."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from service.engine.models.backend import Backend, Sampler
from service.engine.models.model_spec import AUTO, ModelSpec
from service.engine.models.native.backend import QUANTIZATIONS, load_native, native_arithmetic, native_refusal
from service.engine.models.torch.decoder_shape import lean_refusal
from service.engine.models.torch.share import parallel_refusal
from service.engine.watermark import Watermark
from service.generation.errors import ModelLoadError

_log = logging.getLogger(__name__)


# What follows imports late: torch takes a second, transformers' modelling another, most models need neither, and the
# native module is there only where it was built.


def _native_sampler(backend: Any, watermark: Watermark) -> Sampler[Any]:
    from service.engine.sampler.native_sampler import NativeSampler  # noqa: PLC0415

    return NativeSampler(watermark, lambda: backend.num_threads)


def _torch_sampler(backend: Backend[Any], watermark: Watermark) -> Sampler[Any]:
    from service.engine.sampler.torch_sampler import TorchSampler  # noqa: PLC0415

    del backend  # its logits are torch's
    return TorchSampler(watermark)


def _torch_arithmetic(spec: ModelSpec) -> str:
    import torch  # noqa: PLC0415

    is_cpu = spec.device == "cpu"
    return torch.backends.cpu.get_cpu_capability() if is_cpu else torch.cuda.get_device_name(spec.device)


@dataclass(frozen=True, slots=True)
class BackendRow:
    """A backend by the name that settings call it by.

    `refusal` says why it can't serve a model, by its architecture, type and device; None if it can. What only shows
    while a model is loaded is a ModelLoadError of `load`. `sampler` makes what samples from the backend's logits.
    `arithmetic` names what decides the logits' bits beside the weights, their type and torch.
    With `is_invariant` a row of its logits has the same bits whatever else is in the step.
    `quantizations` are those that it has. With `takes_cache_dtype` keys and values may have a type other than the
    model's on a CPU; devices' kernels take one type. With `takes_images` it reads a batch's images.
    `parallel_refusal` says why it can't share the model out to `tensor_parallel` processes.
    """

    name: str
    refusal: Callable[[ModelSpec], str | None]
    load: Callable[[ModelSpec], Backend[Any]]
    sampler: Callable[[Backend[Any], Watermark], Sampler[Any]] = _torch_sampler
    arithmetic: Callable[[ModelSpec], str] = _torch_arithmetic
    is_invariant: bool = False
    quantizations: frozenset[str] = frozenset()
    takes_cache_dtype: bool = False
    takes_images: bool = False
    parallel_refusal: Callable[[ModelSpec], str | None] = lambda _: "it has no tensor parallelism"


def _parallel_refusal(spec: ModelSpec) -> str | None:
    import torch  # noqa: PLC0415

    if spec.device not in {"cpu", "cuda"}:
        return f"with engine.tensor_parallel the device is cpu or cuda, not {spec.device}"
    if spec.device == "cuda" and torch.cuda.device_count() < spec.tensor_parallel:
        return f"engine.tensor_parallel {spec.tensor_parallel} exceeds the GPUs here, {torch.cuda.device_count()}"
    return parallel_refusal(spec.config, spec.tensor_parallel)


def _load_decoder(spec: ModelSpec) -> Backend[Any]:
    import torch  # noqa: PLC0415

    if spec.tensor_parallel > 1:
        from service.engine.models.parallel.backend import load_parallel  # noqa: PLC0415

        return load_parallel(spec)
    from service.engine.models.torch.load_decoder import load_decoder  # noqa: PLC0415

    dtype, device = getattr(torch, spec.dtype), torch.device(spec.device)
    accelerator = None
    if device.type == "cuda":
        from service.engine.models.attention.cuda_device import cuda_accelerator  # noqa: PLC0415

        accelerator = cuda_accelerator(device, spec.max_sequences, spec.max_positions, spec.max_graph_bytes)
    return load_decoder(
        spec.config,
        spec.checkpoint,
        dtype,
        device,
        spec.max_positions,
        accelerator=accelerator,
        cache_dtype=getattr(torch, spec.cache_dtype),
    )


def _modules_refusal(spec: ModelSpec) -> str | None:
    from service.engine.models.modules.load_modules import modules_refusal  # noqa: PLC0415

    return modules_refusal(spec.config, spec.checkpoint.folder)


def _load_modules(spec: ModelSpec) -> Backend[Any]:
    from service.engine.models.modules.load_modules import load_modules  # noqa: PLC0415

    return load_modules(spec.config, spec.checkpoint.folder, spec.dtype, spec.device)


def _vision_refusal(spec: ModelSpec) -> str | None:
    from service.engine.models.modules.load_vision import vision_refusal  # noqa: PLC0415

    return vision_refusal(spec.config, spec.checkpoint.folder)


def _load_vision(spec: ModelSpec) -> Backend[Any]:
    from service.engine.models.modules.load_vision import load_vision  # noqa: PLC0415

    return load_vision(spec.config, spec.checkpoint.folder, spec.dtype, spec.device)


# The first that can serve a model does.
BACKENDS = (
    BackendRow(
        "native",
        lambda spec: native_refusal(spec.config, spec.dtype, spec.device, spec.block_size),
        lambda spec: load_native(
            spec.config,
            spec.checkpoint,
            spec.dtype,
            spec.most_threads,
            spec.quantization,
            cache_dtype=spec.kv_cache_dtype,
        ),
        _native_sampler,
        arithmetic=lambda _: native_arithmetic(),
        quantizations=QUANTIZATIONS,
        takes_cache_dtype=True,
        is_invariant=True,
    ),
    BackendRow(
        "torch",
        lambda spec: lean_refusal(spec.config),
        _load_decoder,
        takes_cache_dtype=True,
        parallel_refusal=_parallel_refusal,
    ),
    BackendRow(
        "vision",
        _vision_refusal,
        _load_vision,
        arithmetic=lambda spec: f"{_torch_arithmetic(spec)} {version('transformers')}",
        takes_images=True,
    ),
    BackendRow(
        "transformers",
        _modules_refusal,
        _load_modules,
        arithmetic=lambda spec: f"{_torch_arithmetic(spec)} {version('transformers')}",
    ),
)


def choose_backend(spec: ModelSpec, name: str = AUTO, table: Sequence[BackendRow] = BACKENDS) -> BackendRow:
    """The backend of that name or, with "auto", the first that can serve the model.

    Raises ModelLoadError with the reason if it can't, and for a name that is not in the table.
    """
    named = [row for row in table if name in {AUTO, row.name}]
    if not named:
        names = ", ".join(row.name for row in table)
        raise ModelLoadError(f"engine.backend must be {AUTO} or one of {names}, not {name!r}")
    folder, refusals = spec.checkpoint.folder, []
    for row in named:
        refusal = (
            _quantization_refusal(row, spec)
            or _cache_refusal(row, spec)
            or _refusal_to_share(row, spec)
            or _adapter_refusal(spec)
            or _company_refusal(row, spec)
            or row.refusal(spec)
        )
        if refusal is None:
            return row
        _log.info("%s: not served by the backend %s: %s", folder, row.name, refusal)
        refusals.append(f"backend {row.name}: {refusal}")
    raise ModelLoadError(f"{folder}: the architecture {spec.config.model_type} can't be served: {'; '.join(refusals)}")


def _refusal_to_share(row: BackendRow, spec: ModelSpec) -> str | None:
    return None if spec.tensor_parallel == 1 else row.parallel_refusal(spec)


def _adapter_refusal(spec: ModelSpec) -> str | None:
    if spec.max_adapters and spec.tensor_parallel > 1:
        return "adapters (engine.max_adapters) and engine.tensor_parallel don't go together"
    return None


def _company_refusal(row: BackendRow, spec: ModelSpec) -> str | None:
    if row.is_invariant or not spec.batch_invariant:
        return None
    return "its answers depend on what else is in a step (engine.batch_invariant)"


def _quantization_refusal(row: BackendRow, spec: ModelSpec) -> str | None:
    if spec.quantization is None or spec.quantization in row.quantizations:
        return None
    return f"it has no {spec.quantization} weights (engine.quantization)"


def _cache_refusal(row: BackendRow, spec: ModelSpec) -> str | None:
    if spec.cache_dtype == spec.dtype or (row.takes_cache_dtype and spec.device == "cpu"):
        return None
    return f"it keeps keys and values in {spec.dtype}, not in {spec.cache_dtype} (engine.kv_cache_dtype)"
