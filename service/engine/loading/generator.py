"""Load a generating model, and derive its limits from the model and the available memory."""

from __future__ import annotations

import logging
import time
from collections import abc
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from service.engine.constraints.compiler import ConstraintCompiler
from service.engine.core.adapter_table import AdapterTable
from service.engine.core.blocks.cache_memory import CacheMemory
from service.engine.core.drafts.drafter import Drafter
from service.engine.core.drafts.prompt_drafter import PromptDrafter
from service.engine.core.drafts.speculation import Speculation
from service.engine.core.generator_core import GeneratorCore
from service.engine.core.snapshot.cache_snapshot import CacheSnapshot
from service.engine.device.device_memory import (
    DeviceMemory,
    explain_out_of_memory,
    graph_bytes,
    require_capacity,
)
from service.engine.device.memory import require_host_memory
from service.engine.interface.cache_group import ONE_GROUP, CacheGroup
from service.engine.interface.config import EngineConfig
from service.engine.interface.description import ComputeDtype, GeneratorDescription, ModelInfo
from service.engine.link.engine_spec import BuiltCore, HelperProcesses
from service.engine.loading.cache_size import adapter_bytes, available_cache_bytes, choose_num_blocks, limit_sequences
from service.engine.loading.drafter import DraftModel, load_draft_model
from service.engine.loading.kept_cache import KeptCache, start_digest
from service.engine.loading.model_info import eos_token_ids_of, model_info
from service.engine.loading.model_plan import ModelPlan, plan_model
from service.engine.loading.model_source import choose_num_threads, open_device_memory
from service.engine.models.checkpoint.adapter_files import read_adapter
from service.engine.models.checkpoint.packed.packed_checkpoint import PackedCheckpoint
from service.engine.models.checkpoint.progress import load_progress
from service.engine.models.interface.backend import Backend, ContinuesDecodes, GroupsLayers, KeepsSequenceState
from service.engine.runner.model_runner import ModelRunner
from service.engine.tokens.token_table import TokenTable
from service.generation.adapter import AdapterLoaded
from service.generation.errors import ModelLoadError

_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}  # of a weight
_QUANTIZED_BYTES = {"int8": 1, "int4": 0.5}  # of a weight, without its scales
_CPU_OUTPUT_INTERVAL_S = 0.02  # 50 chunks per second; a reader could not distinguish more

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that is ready to run."""

    runner: ModelRunner[Any]
    tokens: TokenTable
    config: EngineConfig  # no field is None; speculation is off if the backend does not support it
    info: ModelInfo
    folder: Path
    eos_token_ids: frozenset[int]
    drafter: Drafter | None  # None without speculation
    num_states: int  # slots for recurrent states; 0 for a model without them
    adapters: AdapterTable | None  # None if adapters are disabled
    cache_groups: abc.Sequence[CacheGroup]
    cache_memory: CacheMemory | None  # of its cache, if it outlives this process
    snapshot: CacheSnapshot | None  # of its cache, if the settings ask for one


def load_generator(
    model: str,
    config: EngineConfig,
    *,
    compute_dtype: ComputeDtype,
    device: str,
    cache_share: float,
    control_token_ids: abc.Mapping[str, int],
    cache_file: str | None = None,
    num_states: int | None = None,
    clock: abc.Callable[[], float] = time.monotonic,
) -> BuiltCore:
    """Return a core that generates with `model`. Arguments and errors are those of `engines.build_engine`.

    `cache_file` is the path of a file in memory for the cache, in which an earlier core may have left cached prefixes.
    `num_states` is the number of slots for recurrent states that the first load chose; None: it is chosen.
    `clock` returns seconds, by which steps are measured.
    """
    loaded = load_model(
        model,
        config,
        compute_dtype=compute_dtype,
        device=device,
        cache_share=cache_share,
        cache_file=cache_file,
        num_states=num_states,
    )
    eos_token_ids, backend = loaded.eos_token_ids, loaded.runner.backend
    core = GeneratorCore(
        loaded.runner,
        loaded.tokens,
        loaded.config,
        eos_token_ids=eos_token_ids,
        compile_constraint=_constraint_compiler(loaded, control_token_ids),
        speculation=Speculation(loaded.drafter, clock) if loaded.drafter else None,
        clock=clock,
        adapters=loaded.adapters,
        num_states=loaded.num_states,
        state_bytes=backend.bytes_per_sequence if isinstance(backend, KeepsSequenceState) else 0,
        shares_blocks=not isinstance(backend, KeepsSequenceState) or backend.splits_states,
        cache_groups=loaded.cache_groups,
        cache_memory=loaded.cache_memory,
        snapshot=loaded.snapshot,
    )
    description = GeneratorDescription(
        loaded.config, loaded.info, loaded.tokens.vocab_size, eos_token_ids, loaded.cache_groups
    )
    helpers = backend if isinstance(backend, HelperProcesses) else None
    reload_arguments = {"config": loaded.config, "num_states": loaded.num_states}
    return BuiltCore(core, description, reload_arguments, helpers)


def _constraint_compiler(loaded: LoadedModel, control_token_ids: abc.Mapping[str, int]) -> ConstraintCompiler | None:
    """Return the compiler; None without an end-of-text token of the tokenizer, as a grammar could not allow the end."""
    tokens = loaded.tokens
    ending = [token_id for token_id in loaded.eos_token_ids if token_id < tokens.vocab_size]
    if not ending:
        return None
    return ConstraintCompiler(tokens, control_token_ids, ending, ends_in_time=loaded.config.end_in_time)


def load_model(
    model: str,
    config: EngineConfig,
    *,
    compute_dtype: ComputeDtype = "auto",
    device: str = "auto",
    cache_share: float = 1.0,
    cache_file: str | None = None,
    num_states: int | None = None,
) -> LoadedModel:
    """Load `model`, a folder or a hub id, and size its cache. Raise ModelLoadError if the model cannot be loaded.

    `device` is a torch device or "auto": CUDA if available, otherwise the CPU. The cache takes at most the fraction
    `cache_share` of the memory available for caches; the rest is left to engines built later. `cache_file` and
    `num_states` are those of `load_generator`.
    """
    plan = plan_model(model, config, compute_dtype, device)
    memory = open_device_memory(plan.spec.device)
    with explain_out_of_memory(memory, plan.folder):
        return _load(model, plan, config, memory, cache_share, cache_file, num_states)


def _load(  # noqa: PLR0917
    model: str,
    plan: ModelPlan,
    config: EngineConfig,
    memory: DeviceMemory | None,
    cache_share: float,
    cache_file: str | None,
    num_states: int | None,
) -> LoadedModel:
    folder, spec, chosen = plan.folder, plan.spec, plan.backend
    config = replace(config, block_size=spec.block_size)
    model_config, checkpoint, max_model_len, target = spec.config, spec.checkpoint, spec.max_positions, spec.device
    num_ranks = config.tensor_parallel
    num_threads = config.num_threads or max(1, choose_num_threads(checkpoint, target) // num_ranks)
    _require_weight_memory(plan, config, memory)
    if memory is not None:
        spec = replace(spec, max_graph_bytes=graph_bytes(memory))
    weights_digest = start_digest(checkpoint, config)
    with load_progress(model, checkpoint.num_bytes // num_ranks) as on_read:
        checkpoint.on_read = on_read
        backend = chosen.load(spec)
    adapters = _adapter_table(backend, config)
    cache_bytes_left = int(available_cache_bytes(backend, plan, config, memory) * cache_share)
    cache_bytes_left -= adapter_bytes(checkpoint, config)
    is_invariant = chosen.variance_reason(spec) is None
    if not isinstance(backend, KeepsSequenceState):
        num_states = 0
    else:
        if num_states is None:
            config, num_states = limit_sequences(config, backend, cache_bytes_left, folder)
        cache_bytes_left -= num_states * backend.bytes_per_sequence
    cache_groups: abc.Sequence[CacheGroup] = ONE_GROUP
    if isinstance(backend, GroupsLayers):
        # A draft model uses the blocks of the first group.
        cache_groups = backend.group_layers(max_model_len, keeps_all=config.draft_model is not None)
    bytes_per_block = backend.bytes_per_block(spec.block_size)
    draft_model = None
    if config.draft_model is not None:
        if not is_invariant:
            raise ModelLoadError(f"{folder}: engine.draft_model is not supported by the backend {chosen.name}")
        draft_model = load_draft_model(config.draft_model, config, spec, plan.tokens)
        bytes_per_block += draft_model.bytes_per_block(spec.block_size)
    num_blocks = config.num_blocks or choose_num_blocks(
        config,
        max_model_len,
        cache_groups,
        bytes_per_block=bytes_per_block,
        cache_bytes_left=cache_bytes_left,
        folder=folder,
    )
    resolved = replace(
        config,
        num_blocks=num_blocks,
        max_model_len=max_model_len,
        num_threads=num_threads,
        output_interval_s=_output_interval_s(config, target),
        speculation=config.speculation and is_invariant,
        max_adapters=config.max_adapters or 0,
    )
    info = model_info(plan, config)
    kept = KeptCache(backend, checkpoint, resolved, cache_groups, info.fingerprint)
    cache_memory = kept.place(cache_file, num_blocks, num_states)
    sampler = chosen.sampler(backend, config.watermark)
    runner = _runner_class(backend)(
        backend,
        sampler,
        num_blocks,
        spec.block_size,
        num_states=num_states,
        num_threads=num_threads,
        adapter_slots=adapters.slots if adapters else None,
    )
    eos_token_ids = eos_token_ids_of(folder, model_config)
    return LoadedModel(
        runner=runner,
        tokens=plan.tokens,
        config=resolved,
        info=info,
        folder=folder,
        eos_token_ids=eos_token_ids,
        drafter=_drafter(draft_model, sampler, resolved),
        num_states=num_states,
        adapters=adapters,
        cache_groups=cache_groups,
        cache_memory=cache_memory,
        snapshot=kept.snapshot(weights_digest),
    )


def _runner_class(backend: Backend[Any]) -> type[ModelRunner[Any]]:
    if not isinstance(backend, ContinuesDecodes):
        return ModelRunner
    from service.engine.runner.ahead_runner import AheadRunner  # noqa: PLC0415  it imports torch

    return AheadRunner


def _require_weight_memory(plan: ModelPlan, config: EngineConfig, memory: DeviceMemory | None) -> None:
    """Raise ModelLoadError if the weights cannot fit. Log the size of weights that are dequantized during the load."""
    spec, folder = plan.spec, plan.folder
    checkpoint = spec.checkpoint
    num_bytes = checkpoint.num_parameters * _BYTES[spec.dtype]
    if config.quantization is None and plan.backend.takes_blocks(spec):
        require_host_memory(checkpoint.memory_bytes, folder)
        return
    if isinstance(checkpoint, PackedCheckpoint):
        message = "%s: packed weights of %.0f MB are dequantized during the load: in %s they take %.0f MB"
        _log.warning(message, folder, checkpoint.num_bytes / 1e6, spec.dtype, num_bytes / 1e6)
    if memory is not None:
        require_capacity(memory, config.device_memory, num_bytes // config.tensor_parallel, folder)
    else:
        stored = _QUANTIZED_BYTES.get(config.quantization or "", _BYTES[spec.dtype])
        require_host_memory(int(checkpoint.num_parameters * stored), folder)


def _adapter_table(backend: Backend[Any], config: EngineConfig) -> AdapterTable | None:
    """Return the table of adapters that the backend holds, or None if the engine takes none."""
    if not config.max_adapters:
        return None

    def put(slot: int, folder: Path) -> AdapterLoaded:
        adapter = read_adapter(folder, config.max_adapter_rank)
        backend.put_adapter(slot, adapter)
        return adapter.description

    return AdapterTable(put, backend.drop_adapter, config.max_adapters)


def _output_interval_s(config: EngineConfig, device: str) -> float:
    if config.output_interval_s is not None:
        return config.output_interval_s
    return _CPU_OUTPUT_INTERVAL_S if device == "cpu" else 0.0


def _drafter(draft_model: DraftModel | None, sampler: Any, config: EngineConfig) -> Drafter | None:
    if not config.speculation:
        return None
    return PromptDrafter() if draft_model is None else draft_model.drafter(sampler.draw, config)
