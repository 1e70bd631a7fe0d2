"""The table of backends, and the selection of one for a model."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from service.engine.models.interface.backend import Backend, Sampler
from service.engine.models.interface.model_spec import AUTO, ModelSpec
from service.engine.models.native.backend import (
    QUANTIZATIONS,
    load_native,
    native_arithmetic,
    native_takes_blocks,
    native_unsupported_reason,
)
from service.engine.models.plans.families.table import plan_of
from service.engine.models.torch.shard import parallel_unsupported_reason
from service.engine.models.torch.supported import decoder_unsupported_reason
from service.engine.tokens.watermark import Watermark
from service.generation.errors import ModelLoadError

_DEPENDS_ON_OTHERS = "its answers depend on the other requests of a step (engine.batch_invariant)"

_log = logging.getLogger(__name__)


# The functions below import lazily: torch takes a second, transformers' models another second, most models need
# neither, and the native module exists only if it was built.


def _native_sampler(backend: Any, watermark: Watermark) -> Sampler[Any]:
    from service.engine.sampler.native_sampler import NativeSampler  # noqa: PLC0415

    return NativeSampler(watermark, lambda: backend.num_threads)


def _torch_sampler(backend: Backend[Any], watermark: Watermark) -> Sampler[Any]:
    from service.engine.sampler.torch_sampler import TorchSampler  # noqa: PLC0415

    del backend  # its logits are torch tensors
    return TorchSampler(watermark)


def _torch_arithmetic(spec: ModelSpec) -> str:
    import torch  # noqa: PLC0415

    if spec.device == "cpu":
        return torch.backends.cpu.get_cpu_capability()
    return torch.cuda.get_device_name(spec.device) + (" invariant" if spec.batch_invariant else "")


@dataclass(frozen=True, slots=True)
class BackendRow:
    """A backend, by its name in the settings.

    `unsupported_reason` returns why the backend does not support a model's architecture, type or device, or None if it
    does. A problem that appears only during the load is a ModelLoadError of `load`. `sampler` returns the sampler of
    the backend's logits. `arithmetic` describes what determines the bits of the logits in addition to the weights,
    their type and the version of torch. `variance_reason` returns why the bits of a row of logits depend on the rest of
    the step, or None if they don't. `shares_prefixes` and `takes_adapters` are None where they depend on the model's
    modules and are known only after a load. `quantizations` are the supported ones. `cache_dtypes` are the types that
    keys and values on a CPU can have other than the model's; device kernels take one type. With `takes_images` the
    backend reads a batch's images. `takes_blocks` returns whether it multiplies the blocks of a file's quantized
    weights, and doesn't widen them. With `keeps_cache` another process can use what it has cached.
    `parallel_unsupported_reason` returns why the model cannot be sharded to `tensor_parallel` processes.
    """

    name: str
    unsupported_reason: Callable[[ModelSpec], str | None]
    load: Callable[[ModelSpec], Backend[Any]]
    sampler: Callable[[Backend[Any], Watermark], Sampler[Any]] = _torch_sampler
    arithmetic: Callable[[ModelSpec], str] = _torch_arithmetic
    variance_reason: Callable[[ModelSpec], str | None] = lambda _: _DEPENDS_ON_OTHERS
    shares_prefixes: bool | None = True
    takes_adapters: bool | None = True
    quantizations: frozenset[str] = frozenset()
    cache_dtypes: frozenset[str] = frozenset()
    takes_images: bool = False
    takes_blocks: Callable[[ModelSpec], bool] = lambda _: False
    keeps_cache: bool = False
    parallel_unsupported_reason: Callable[[ModelSpec], str | None] = lambda _: "it does not support tensor parallelism"


def _parallel_unsupported_reason(spec: ModelSpec) -> str | None:
    import torch  # noqa: PLC0415

    if spec.device not in {"cpu", "cuda"}:
        return f"with engine.tensor_parallel the device must be cpu or cuda, not {spec.device}"
    if spec.device == "cuda" and torch.cuda.device_count() < spec.tensor_parallel:
        return f"engine.tensor_parallel {spec.tensor_parallel} exceeds the number of GPUs, {torch.cuda.device_count()}"
    return parallel_unsupported_reason(spec.config, spec.tensor_parallel)


def _decoder_variance_reason(spec: ModelSpec) -> str | None:
    """Return why answers depend on the other requests of a step, or None if they don't."""
    if not spec.batch_invariant or spec.tensor_parallel > 1 or spec.max_adapters or spec.device == "cpu":
        return _DEPENDS_ON_OTHERS
    if (reason := decoder_unsupported_reason(spec.config)) is not None:
        return reason
    import torch  # noqa: PLC0415

    from service.engine.models.cuda.support import MOST_HEAD_NUMBERS, device_unsupported_reason  # noqa: PLC0415

    reason = device_unsupported_reason(torch.device(spec.device))
    largest = max(layer.heads.head_dim for layer in plan_of(spec.config).layers)
    if reason is None and largest > MOST_HEAD_NUMBERS:
        reason = f"its heads have {largest} numbers, the kernels' limit is {MOST_HEAD_NUMBERS}"
    return None if reason is None else f"{_DEPENDS_ON_OTHERS}: {reason}"


def _load_decoder(spec: ModelSpec) -> Backend[Any]:
    import torch  # noqa: PLC0415

    if spec.tensor_parallel > 1:
        from service.engine.models.parallel.backend import load_parallel  # noqa: PLC0415

        return load_parallel(spec)
    from service.engine.models.torch.load_decoder import load_decoder  # noqa: PLC0415

    dtype, device = getattr(torch, spec.dtype), torch.device(spec.device)
    accelerator = None
    if device.type == "cuda":
        from service.engine.models.cuda.device import cuda_accelerator  # noqa: PLC0415

        accelerator = cuda_accelerator(
            device,
            spec.max_sequences,
            spec.max_positions,
            spec.max_graph_bytes,
            is_invariant=spec.batch_invariant,
        )
    return load_decoder(
        spec.config,
        spec.checkpoint,
        dtype,
        device,
        spec.max_positions,
        accelerator=accelerator,
        cache_dtype=getattr(torch, spec.cache_dtype),
    )


def _modules_unsupported_reason(spec: ModelSpec) -> str | None:
    from service.engine.models.modules.load_modules import modules_unsupported_reason  # noqa: PLC0415

    return modules_unsupported_reason(spec.config, spec.checkpoint.folder)


def _load_modules(spec: ModelSpec) -> Backend[Any]:
    from service.engine.models.modules.load_modules import load_modules  # noqa: PLC0415

    return load_modules(spec.config, spec.checkpoint.folder, spec.dtype, spec.device)


def _vision_unsupported_reason(spec: ModelSpec) -> str | None:
    from service.engine.models.modules.load_vision import vision_unsupported_reason  # noqa: PLC0415

    return vision_unsupported_reason(spec.config, spec.checkpoint.folder)


def _load_vision(spec: ModelSpec) -> Backend[Any]:
    from service.engine.models.modules.load_vision import load_vision  # noqa: PLC0415

    return load_vision(spec.config, spec.checkpoint.folder, spec.dtype, spec.device)


# With "auto" the first backend that supports the model is used.
BACKENDS = (
    BackendRow(
        "native",
        lambda spec: native_unsupported_reason(
            spec.config, spec.dtype, spec.device, spec.block_size, spec.kv_cache_dtype
        ),
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
        cache_dtypes=frozenset({"float32", "bfloat16", "float16", "int8"}),
        variance_reason=lambda _: None,
        takes_blocks=lambda spec: native_takes_blocks(spec.config, spec.checkpoint),
        keeps_cache=True,
    ),
    BackendRow(
        "torch",
        lambda spec: decoder_unsupported_reason(spec.config),
        _load_decoder,
        variance_reason=_decoder_variance_reason,
        cache_dtypes=frozenset({"float32", "bfloat16", "float16"}),
        parallel_unsupported_reason=_parallel_unsupported_reason,
    ),
    BackendRow(
        "vision",
        _vision_unsupported_reason,
        _load_vision,
        arithmetic=lambda spec: f"{_torch_arithmetic(spec)} {version('transformers')}",
        shares_prefixes=None,
        takes_adapters=None,
        takes_images=True,
    ),
    BackendRow(
        "transformers",
        _modules_unsupported_reason,
        _load_modules,
        arithmetic=lambda spec: f"{_torch_arithmetic(spec)} {version('transformers')}",
        shares_prefixes=None,
        takes_adapters=None,
    ),
)


def choose_backend(spec: ModelSpec, name: str = AUTO, table: Sequence[BackendRow] = BACKENDS) -> BackendRow:
    """Return the backend of that name or, with "auto", the first that supports the model.

    Raise ModelLoadError with the reasons if there is none, or if the name is not in the table.
    """
    named = [row for row in table if name in {AUTO, row.name}]
    if not named:
        names = ", ".join(row.name for row in table)
        raise ModelLoadError(f"engine.backend must be {AUTO} or one of {names}, not {name!r}")
    folder, reasons = spec.checkpoint.folder, []
    for row in named:
        reason = _unsupported_reason(row, spec)
        if reason is None:
            return row
        _log.info("%s: not supported by the backend %s: %s", folder, row.name, reason)
        reasons.append(f"backend {row.name}: {reason}")
    raise ModelLoadError(f"{folder}: the architecture {spec.config.model_type} is not supported: {'; '.join(reasons)}")


def weight_type_of(spec: ModelSpec, row: BackendRow) -> str:
    """Return the type of the weights that a backend computes with."""
    if spec.quantization is not None:
        return spec.quantization
    return (spec.checkpoint.block_type if row.takes_blocks(spec) else None) or spec.dtype


def preferred_reasons(
    spec: ModelSpec, chosen: BackendRow, table: Sequence[BackendRow] = BACKENDS
) -> dict[str, str | None]:
    """Return why each backend that is preferred to `chosen` does not support the model; None if it does."""
    return {row.name: _unsupported_reason(row, spec) for row in table[: table.index(chosen)]}


def _unsupported_reason(row: BackendRow, spec: ModelSpec) -> str | None:
    return (
        _quantization_unsupported_reason(row, spec)
        or _cache_unsupported_reason(row, spec)
        or _sharding_unsupported_reason(row, spec)
        or _adapter_unsupported_reason(spec)
        or _invariance_unsupported_reason(row, spec)
        or row.unsupported_reason(spec)
    )


def _sharding_unsupported_reason(row: BackendRow, spec: ModelSpec) -> str | None:
    return None if spec.tensor_parallel == 1 else row.parallel_unsupported_reason(spec)


def _adapter_unsupported_reason(spec: ModelSpec) -> str | None:
    if spec.max_adapters and spec.tensor_parallel > 1:
        return "adapters (engine.max_adapters) are not supported with engine.tensor_parallel"
    return None


def _invariance_unsupported_reason(row: BackendRow, spec: ModelSpec) -> str | None:
    return row.variance_reason(spec) if spec.batch_invariant else None


def _quantization_unsupported_reason(row: BackendRow, spec: ModelSpec) -> str | None:
    if spec.quantization is None or spec.quantization in row.quantizations:
        return None
    return f"it does not support {spec.quantization} weights (engine.quantization)"


def _cache_unsupported_reason(row: BackendRow, spec: ModelSpec) -> str | None:
    if spec.cache_dtype == spec.dtype or (spec.cache_dtype in row.cache_dtypes and spec.device == "cpu"):
        return None
    return f"it stores keys and values in {spec.dtype}, not in {spec.cache_dtype} (engine.kv_cache_dtype)"
