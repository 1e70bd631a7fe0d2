"""Load a generating model, and derive sizes from the model and the memory."""

from __future__ import annotations

import json
import logging
from collections import abc
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from service.engine.config import EngineConfig
from service.engine.constraints.compiler import ConstraintCompiler
from service.engine.core.adapter_table import AdapterTable
from service.engine.core.drafts.drafter import Drafter
from service.engine.core.drafts.prompt_drafter import PromptDrafter
from service.engine.core.drafts.speculation import Speculation
from service.engine.core.generator_core import GeneratorCore
from service.engine.description import ComputeDtype, GeneratorDescription, ModelInfo
from service.engine.device.device_memory import (
    DeviceMemory,
    graph_bytes,
    out_of_memory_explained,
    require_room,
    room_for_cache,
)
from service.engine.device.memory import cache_bytes
from service.engine.link.engine_spec import BuiltCore, HelperProcesses
from service.engine.loading.drafter import DraftModel, load_draft_model
from service.engine.loading.model_plan import ModelPlan, plan_model
from service.engine.loading.model_source import architecture_of, choose_num_threads, fingerprint, open_device_memory
from service.engine.models.backend import Backend, KeepsSequences
from service.engine.models.checkpoint.adapter_files import read_adapter
from service.engine.models.checkpoint.checkpoint import Checkpoint
from service.engine.models.checkpoint.packed_checkpoint import PackedCheckpoint
from service.engine.models.checkpoint.progress import load_progress
from service.engine.models.checkpoint.text_part import text_config
from service.engine.models.model_spec import ModelSpec
from service.engine.runner.measured_step import measured_step
from service.engine.runner.model_runner import ModelRunner
from service.engine.tokenizer import FastTokenizer
from service.generation.adapter import AdapterLoaded
from service.generation.errors import ModelLoadError

# Files of a model, beside its weights, that decide which tokens a request gets.
_DECIDING = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}  # of a weight
_CPU_OUTPUT_INTERVAL_S = 0.02  # of a stream's 50 pieces a second, more could not be told apart by a reader

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model ready to compute."""

    runner: ModelRunner[Any]
    tokenizer: FastTokenizer
    config: EngineConfig  # with nothing left None, and no speculation where the backend can't have it
    info: ModelInfo
    folder: Path
    eos_token_ids: frozenset[int]
    drafter: Drafter | None  # with speculation
    adapters: AdapterTable | None  # where the model takes any


def load_generator(
    model: str,
    config: EngineConfig,
    *,
    compute_dtype: ComputeDtype,
    device: str,
    cache_share: float,
    control_token_ids: abc.Mapping[str, int],
) -> BuiltCore:
    """An engine's side that generates with `model`. Arguments and errors are those of `engines.build_engine`."""
    loaded = load_model(model, config, compute_dtype=compute_dtype, device=device, cache_share=cache_share)
    eos_token_ids = loaded.eos_token_ids
    core = GeneratorCore(
        loaded.runner,
        loaded.tokenizer,
        loaded.config,
        eos_token_ids=eos_token_ids,
        # Without an end of text a grammar would have none to allow.
        compile_constraint=(
            ConstraintCompiler(
                loaded.tokenizer, control_token_ids, eos_token_ids, ends_in_time=loaded.config.end_in_time
            )
            if eos_token_ids
            else None
        ),
        speculation=Speculation(loaded.drafter) if loaded.drafter else None,
        adapters=loaded.adapters,
        shares_blocks=not isinstance(loaded.runner.backend, KeepsSequences),
    )
    description = GeneratorDescription(loaded.config, loaded.info, loaded.tokenizer.vocab_size, eos_token_ids)
    backend = loaded.runner.backend
    helpers = backend if isinstance(backend, HelperProcesses) else None
    return BuiltCore(core, description, again={"config": loaded.config}, helpers=helpers)


def load_model(
    model: str,
    config: EngineConfig,
    *,
    compute_dtype: ComputeDtype = "auto",
    device: str = "auto",
    cache_share: float = 1.0,
) -> LoadedModel:
    """Load `model`, a folder or a hub id, and size its cache. Raises ModelLoadError for whatever is wrong.

    `device` is a torch device or "auto": CUDA if there is one, else the CPU. Its cache takes at most `cache_share` of
    the memory that is left for caches, so that engines built later have theirs.
    """
    plan = plan_model(model, config, compute_dtype, device)
    memory = open_device_memory(plan.spec.device)
    with out_of_memory_explained(memory, plan.folder):
        return _load(model, plan, config, memory, cache_share)


def _load(
    model: str, plan: ModelPlan, config: EngineConfig, memory: DeviceMemory | None, cache_share: float
) -> LoadedModel:
    folder, spec, chosen = plan.folder, plan.spec, plan.backend
    config = replace(config, block_size=spec.block_size)
    model_config, checkpoint, max_model_len, target = spec.config, spec.checkpoint, spec.max_positions, spec.device
    num_ranks = config.tensor_parallel
    num_threads = config.num_threads or max(1, choose_num_threads(checkpoint, target) // num_ranks)
    if isinstance(checkpoint, PackedCheckpoint):
        size = checkpoint.num_parameters * _BYTES[spec.dtype] / 1e6
        message = "%s: packed weights of %.0f MB are widened as they are loaded: in %s they are %.0f MB"
        _log.warning(message, folder, checkpoint.num_bytes / 1e6, spec.dtype, size)
    if memory is not None:
        require_room(memory, config.device_memory, _weight_bytes(spec) // num_ranks, folder)
        spec = replace(spec, max_graph_bytes=graph_bytes(memory))
    with load_progress(model, checkpoint.num_bytes // num_ranks) as on_read:
        checkpoint.on_read = on_read
        backend = chosen.load(spec)
    adapters = _adapter_table(backend, config)
    room = int(_room(backend, plan, config, memory) * cache_share) - _adapter_bytes(checkpoint, config)
    if isinstance(backend, KeepsSequences):
        config, room = _with_places(config, backend.bytes_per_sequence, room, folder)
    bytes_per_block = backend.bytes_per_block(spec.block_size)
    draft_model = None
    if config.draft_model is not None:
        if not chosen.is_invariant:
            raise ModelLoadError(f"{folder}: engine.draft_model can't be used with the backend {chosen.name}")
        draft_model = load_draft_model(config.draft_model, config, spec, plan.tokenizer)
        bytes_per_block += draft_model.bytes_per_block(spec.block_size)
    num_blocks = config.num_blocks or _num_blocks(config, max_model_len, bytes_per_block, room, folder)
    resolved = replace(
        config,
        num_blocks=num_blocks,
        max_model_len=max_model_len,
        num_threads=num_threads,
        output_interval_s=_output_interval_s(config, target),
        speculation=config.speculation and chosen.is_invariant,
        max_adapters=config.max_adapters or 0,
    )
    sampler = chosen.sampler(backend, config.watermark)
    runner = ModelRunner(
        backend,
        sampler,
        num_blocks,
        spec.block_size,
        num_threads=num_threads,
        adapter_slots=adapters.slots if adapters else None,
    )
    eos_token_ids = _eos_token_ids(folder, model_config)
    weight_type = config.quantization or spec.dtype
    arithmetic = f"{chosen.name} {chosen.arithmetic(spec)}"
    if spec.cache_dtype != spec.dtype:
        arithmetic += f", {spec.cache_dtype} cache"
    if num_ranks > 1:
        arithmetic += f" {num_ranks} ranks"
    return LoadedModel(
        runner=runner,
        tokenizer=plan.tokenizer,
        config=resolved,
        info=ModelInfo(
            architecture=architecture_of(model_config),
            max_model_len=max_model_len,
            vocab_size=text_config(model_config).vocab_size,
            dtype=weight_type,
            device=target,
            num_parameters=checkpoint.num_parameters,
            is_invariant=chosen.is_invariant,
            takes_images=chosen.takes_images,
            fingerprint=fingerprint(
                checkpoint,
                weight_type,
                *(folder / name for name in _DECIDING if (folder / name).is_file()),
                backend=arithmetic,
            ),
        ),
        folder=folder,
        eos_token_ids=eos_token_ids,
        drafter=_drafter(draft_model, sampler, resolved),
        adapters=adapters,
    )


def _weight_bytes(spec: ModelSpec) -> int:
    return spec.checkpoint.num_parameters * _BYTES[spec.dtype]


def _room(backend: Backend[Any], plan: ModelPlan, config: EngineConfig, memory: DeviceMemory | None) -> int:
    """Bytes for caches, now that the weights are loaded."""
    if memory is None:
        return cache_bytes()
    step_bytes = measured_step(
        backend,
        memory,
        num_tokens=config.max_batch_tokens,
        num_sequences=config.max_batch_sequences,
        max_positions=plan.spec.max_positions,
        block_size=plan.spec.block_size,
        vocab_size=text_config(plan.spec.config).vocab_size,
    )
    return room_for_cache(memory, config.device_memory, step_bytes)


def _adapter_table(backend: Backend[Any], config: EngineConfig) -> AdapterTable | None:
    if not config.max_adapters:
        return None

    def put(place: int, folder: Path) -> AdapterLoaded:
        adapter = read_adapter(folder, config.max_adapter_rank)
        backend.put_adapter(place, adapter)
        return AdapterLoaded(adapter.rank, adapter.num_parameters, adapter.digest)

    return AdapterTable(put, backend.drop_adapter, config.max_adapters)


def _adapter_bytes(checkpoint: Checkpoint, config: EngineConfig) -> int:
    """What as many adapters as there may be take at most: float32 on every matrix, ranks filled up to 16."""
    sides = sum(sum(shape) for _, shape, _ in checkpoint.describe() if len(shape) == 2)
    return 4 * sides * -(-config.max_adapter_rank // 16) * 16 * (config.max_adapters or 0)


def _output_interval_s(config: EngineConfig, device: str) -> float:
    if config.output_interval_s is not None:
        return config.output_interval_s
    return _CPU_OUTPUT_INTERVAL_S if device == "cpu" else 0.0


def _drafter(draft_model: DraftModel | None, sampler: Any, config: EngineConfig) -> Drafter | None:
    if not config.speculation:
        return None
    return PromptDrafter() if draft_model is None else draft_model.drafter(sampler.draw, config)


def _with_places(config: EngineConfig, bytes_per_sequence: int, room: int, folder: Path) -> tuple[EngineConfig, int]:
    """As many sequences at a time as half of `room` holds, without shared prompts, and the room beside them."""
    affordable = room // 2 // bytes_per_sequence if bytes_per_sequence else config.max_batch_sequences
    if affordable < 1:
        raise ModelLoadError(f"no memory is left for what {folder} keeps of a sequence, {bytes_per_sequence} bytes")
    num_sequences = min(config.max_batch_sequences, affordable)
    resolved = replace(config, max_batch_sequences=num_sequences, prefix_caching=False)
    return resolved, room - num_sequences * bytes_per_sequence


def _num_blocks(config: EngineConfig, max_model_len: int, bytes_per_block: int, room: int, folder: Path) -> int:
    """As many as fit into `room` bytes, and no more than all sequences of a full batch need at their longest."""
    useful = config.max_batch_sequences * -(-max_model_len // config.tokens_per_block)
    affordable = room // bytes_per_block if bytes_per_block else useful
    if affordable < 1:
        raise ModelLoadError(f"no memory is left for the cache of {folder}")
    return min(useful, affordable)


def _eos_token_ids(folder: Path, model_config: Any) -> frozenset[int]:
    """The ids that end a text: what generation_config.json says, else config.json."""
    ids = getattr(model_config, "eos_token_id", None)
    if ids is None:
        ids = getattr(text_config(model_config), "eos_token_id", None)
    if (folder / "generation_config.json").is_file():
        try:
            said = json.loads((folder / "generation_config.json").read_text(encoding="utf-8")).get("eos_token_id")
        except (OSError, ValueError, AttributeError) as error:
            raise ModelLoadError(f"{folder / 'generation_config.json'} can't be used: {error}") from error
        ids = said if said is not None else ids
    return frozenset([ids] if isinstance(ids, int) else ids or ())
