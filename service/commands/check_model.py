"""`sluice check`: report whether a model would load, on which backend, and its memory; no weight is read."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from pathlib import Path
from typing import Any, Final, get_args

from service.engine.device.memory import CPU_CACHE_FRACTION, available_host_bytes
from service.engine.interface.config import EngineConfig
from service.engine.interface.description import ComputeDtype
from service.engine.loading.cache_size import state_slots
from service.engine.loading.encoder_source import reject_unsupported_quantization
from service.engine.loading.model_folder import find_folder
from service.engine.loading.model_plan import ModelPlan, plan_model
from service.engine.loading.model_source import architecture_of, choose_device, choose_max_text_len
from service.engine.models.checkpoint.compute_dtype import choose_compute_dtype
from service.engine.models.checkpoint.encoders.pair_files import PairFiles, is_cross_encoder, unsupported_head
from service.engine.models.checkpoint.encoders.sentence_files import SentenceFiles, is_encoder
from service.engine.models.checkpoint.model_config import read_model_config
from service.engine.models.checkpoint.text_part import text_config
from service.engine.models.native.backend import QUANTIZATIONS
from service.engine.models.native.cache_groups import max_cache_bytes
from service.engine.models.native.encoder import native_encoder_block_type, native_encoder_unsupported_reason
from service.engine.models.plans.families.table import plan_of
from service.engine.models.plans.sizes import cache_bytes_per_token, state_bytes
from service.engine.models.selection.backends import preferred_reasons, weight_type_of
from service.engine.models.torch.shard import num_rank_parameters
from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.errors import ModelLoadError
from service.loading.failures import explained_failures

# Bytes of one weight, with its share of the scales.
_BYTES: Final = {"float32": 4.0, "float16": 2.0, "bfloat16": 2.0, "int8": 1.02, "int4": 0.57}


def check_model(model: str, config: EngineConfig, dtype: Any, device: str) -> dict[str, Any]:
    """Return a report of `model`, a folder or hub id. Raise ModelLoadError for a model that would not load."""
    folder = find_folder(model)
    if is_cross_encoder(folder) or is_encoder(folder):
        return _encoder(folder, config, dtype, device)
    if (head := unsupported_head(folder)) is not None:
        raise ModelLoadError(f"{folder}: a {head} can't be served: it neither generates nor makes vectors nor ranks")
    plan = plan_model(model, config, dtype, device)
    FastTokenizer.from_folder(plan.folder)  # raises for a tokenizer that can't encode
    return _report(plan, config)


def _encoder(folder: Path, config: EngineConfig, dtype: Any, device: str) -> dict[str, Any]:
    """Report an encoder or a cross-encoder: names and shapes of its weights are compared with its modules."""
    from service.engine.models.encoders.encoder_plan import plan_encoder  # noqa: PLC0415  torch and transformers take seconds

    ranks = is_cross_encoder(folder)
    files: PairFiles | SentenceFiles = PairFiles.read(folder) if ranks else SentenceFiles.read(folder)
    max_length = files.max_length if isinstance(files, PairFiles) else files.max_seq_length
    plan = plan_encoder(files.body, is_cross_encoder=ranks)
    target = choose_device(device)
    compute_dtype = choose_compute_dtype(dtype, plan.checkpoint.dtype, target)
    model_config = read_model_config(files.body)
    reason = native_encoder_unsupported_reason(
        model_config, compute_dtype, target, None if isinstance(files, PairFiles) else files
    )
    reject_unsupported_quantization(folder, config.quantization, reason)
    weight_type = config.quantization or compute_dtype
    weights = int(plan.checkpoint.num_parameters * _BYTES[weight_type])
    if (
        reason is None
        and not config.quantization
        and (blocks := native_encoder_block_type(model_config, plan.checkpoint))
    ):
        weight_type, weights = blocks, plan.checkpoint.memory_bytes
    report: dict[str, Any] = {
        "model": str(folder),
        "task": "rank" if ranks else "embed",
        "architecture": architecture_of(plan.config),
        "backend": "native" if reason is None else "modules",
        "device": target,
        "parameters": plan.checkpoint.num_parameters,
        "weights": weight_type,
        "weight_bytes": weights,
        "max_model_len": choose_max_text_len(files.body, max_length, plan.max_positions, config.max_model_len),
        "same_answer_in_any_batch": reason is None,
        "quantizations": sorted(QUANTIZATIONS) if reason is None else [],
    }
    if reason is not None:
        report["not_native"] = reason
    if target == "cpu":
        report["fits"] = weights < available_host_bytes()
    return report


def _report(plan: ModelPlan, config: EngineConfig) -> dict[str, Any]:
    """Report the architecture, the backend, the memory, and the syntax of tools and reasoning."""
    spec = plan.spec
    num_parameters = spec.checkpoint.num_parameters
    weight_type = weight_type_of(spec, plan.backend)
    weights = int(num_parameters * _BYTES[weight_type]) if weight_type in _BYTES else spec.checkpoint.memory_bytes
    state, per_token = _state_bytes(plan), _cache_bytes_per_token(plan)
    by_rank: dict[str, Any] = {}
    if (num_ranks := spec.tensor_parallel) > 1:
        own_weights = int(num_rank_parameters(spec.config, num_ranks) * _BYTES[weight_type])
        own_per_token = _usual_bytes_per_token(spec.config, _BYTES[spec.cache_dtype], num_ranks) or 0
        by_rank = {
            "ranks": num_ranks,
            "weight_bytes_by_rank": own_weights,
            "cache_bytes_per_token_by_rank": own_per_token,
        }
        weights, per_token = num_ranks * own_weights, num_ranks * own_per_token
    report: dict[str, Any] = {
        "model": str(plan.folder),
        "task": "generate",
        "architecture": architecture_of(spec.config),
        "backend": plan.backend.name,
        "device": spec.device,
        "parameters": num_parameters,
        "weights": weight_type,
        "weight_bytes": weights,
        "max_model_len": spec.max_positions,
        "cache": spec.cache_dtype,
        "cache_bytes_per_token": per_token,
        **_promises(plan),
        **by_rank,
    }
    if state:
        report["state_bytes_per_sequence"] = state
    elif plan.backend.name == "native":  # sliding layers keep only what their windows reach
        report["cache_bytes_per_sequence"] = max_cache_bytes(
            plan_of(spec.config), spec.max_positions, config.max_batch_tokens, spec.block_size, spec.cache_dtype
        )
    if spec.device == "cpu":
        cache = int(max(0, available_host_bytes() - weights) * CPU_CACHE_FRACTION)
        fits = cache > 0
        if state:
            num_sequences, num_checkpoints = state_slots(state, cache, config.max_batch_sequences)
            report |= {"sequences": num_sequences, "checkpoints": num_checkpoints}
            fits = num_sequences > 0
            cache -= (num_sequences + num_checkpoints) * state
        num_tokens = cache // per_token if per_token else None
        report |= {
            "cache_tokens": num_tokens,
            "fits": fits and (num_tokens is None or num_tokens >= spec.block_size),
        }
    return report


def _promises(plan: ModelPlan) -> dict[str, Any]:
    """Return the guarantees of the chosen backend, and why preferred backends do not support the model.

    None is a guarantee that depends on the model's modules and is known only after a load.
    """
    backend = plan.backend
    reasons = preferred_reasons(plan.spec, backend)
    is_invariant = backend.variance_reason(plan.spec) is None
    return {
        "same_answer_in_any_batch": is_invariant,
        "resumes": is_invariant,
        "shared_prefixes": backend.shares_prefixes,
        "cache_outlives_restart": backend.keeps_cache,
        "drafts": is_invariant,
        "adapters": backend.takes_adapters,
        "quantizations": sorted(backend.quantizations),
        **{f"not_{name}": reason or "another backend was requested" for name, reason in reasons.items()},
    }


def _state_bytes(plan: ModelPlan) -> int:
    """Bytes of a sequence's state in recurrent layers on the native backend; 0 without them."""
    return state_bytes(plan_of(plan.spec.config)) if plan.backend.name == "native" else 0


def _cache_bytes_per_token(plan: ModelPlan) -> int | None:
    """Bytes of one token's keys and values in all layers; None if the configuration is incomplete."""
    spec = plan.spec
    if plan.backend.name == "native":
        return cache_bytes_per_token(plan_of(spec.config), spec.cache_dtype)
    return _usual_bytes_per_token(text_config(spec.config), _BYTES[spec.cache_dtype])


def _usual_bytes_per_token(config: Any, num_bytes: float, num_ranks: int = 1) -> int | None:
    """Bytes of one token's keys and values on one rank if all layers are alike."""
    layers, heads = getattr(config, "num_hidden_layers", None), getattr(config, "num_attention_heads", None)
    if not layers or not heads:
        return None
    if rank := getattr(config, "kv_lora_rank", None):  # all heads share a latent and a rotated key
        return int(layers * (rank + config.qk_rope_head_dim) * num_bytes)
    key_heads = getattr(config, "num_key_value_heads", None) or heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    return int(2 * layers * max(1, key_heads // num_ranks) * size * num_bytes)


def _text(report: dict[str, Any]) -> str:
    """Format a report for people."""
    rows = []
    for name, value in report.items():
        text = "unknown" if value is None else str(value)
        if name.startswith(("weight_bytes", "cache_bytes_per_sequence")):
            text = f"{value / 2**20:,.0f} MiB"
        elif isinstance(value, bool):
            text = "yes" if value else "no"
        elif isinstance(value, list):
            text = ", ".join(value) or "none"
        elif isinstance(value, int):
            text = f"{value:,}"
        rows.append(f"{name.replace('_', ' '):30}{text}")
    return "\n".join(rows)


def main() -> int:
    """Run the command. The exit code is 1 for a model that would not load or not fit in memory."""
    parser = argparse.ArgumentParser(prog="sluice check", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument("model", help="a folder, or a hub id (ORG/MODEL), which is downloaded")
    parser.add_argument("--dtype", default="auto", choices=get_args(ComputeDtype))
    parser.add_argument("--device", default="auto", help="a torch device; auto: a GPU if there is one")
    parser.add_argument("--quantization", choices=["int8", "int4"])
    parser.add_argument("--kv-cache-dtype", default="auto", choices=["auto", "bfloat16", "float16", "int8"])
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--max-model-len", type=int, help="tokens of the longest text")
    parser.add_argument("--tensor-parallel", type=int, default=1, help="processes, or GPUs, that share the model")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    logging.disable(logging.INFO)
    try:
        config = EngineConfig(
            backend=options.backend,
            quantization=options.quantization,
            kv_cache_dtype=options.kv_cache_dtype,
            max_model_len=options.max_model_len,
            tensor_parallel=options.tensor_parallel,
        )
    except ValueError as error:
        sys.stderr.write(f"sluice: {error}\n")
        return 1
    model = str(Path(options.model).expanduser()) if options.model.startswith("~") else options.model
    try:
        with explained_failures(model):
            report = check_model(model, config, options.dtype, options.device)
    except ModelLoadError as error:
        sys.stderr.write(f"sluice: {error}\n")
        return 1
    sys.stdout.write(f"{json.dumps(report, indent=2) if options.json else _text(report)}\n")
    if report.get("fits") is False:
        sys.stderr.write(f"sluice: {report['model']} does not fit in this machine's memory\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
