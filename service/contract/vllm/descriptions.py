"""Descriptions of a model, its load and the server in the form of vLLM's engine service."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from sluice.vllm import engine_pb2

from process.distribution import installed_version
from service.generation.stats import EngineStats
from service.registry.description import ModelDescription, Task
from service.registry.model_files import TokenFacts

_CHUNK_BYTES: Final = 64 * 1024
_GENERATIVE: Final = frozenset({Task.CHAT, Task.COMPLETION})


def model_message(
    model: ModelDescription, facts: TokenFacts, sampling_defaults: Mapping[str, float]
) -> engine_pb2.GetModelInfoResponse:
    """Return the description of a model. Its path is its name, since clients can't read the server's files."""
    return engine_pb2.GetModelInfoResponse(
        model_path=model.name,
        served_model_name=model.name,
        tokenizer_path=model.name,
        is_generation=not _GENERATIVE.isdisjoint(model.tasks),
        max_context_length=model.max_model_len,
        max_req_input_len=max(model.max_model_len - 1, 0),
        vocab_size=model.vocab_size,
        model_type=facts.model_type,
        architectures=[model.architecture],
        eos_token_ids=facts.eos_token_ids,
        pad_token_id=facts.pad_token_id,
        bos_token_id=facts.bos_token_id,
        default_sampling_params_json=json.dumps(sampling_defaults) if sampling_defaults else "",
    )


def server_message(
    stats: EngineStats, num_open: int, uptime_s: float, *, is_paused: bool
) -> engine_pb2.GetServerInfoResponse:
    """Return the description of the server."""
    return engine_pb2.GetServerInfoResponse(
        active_requests=num_open,
        is_paused=is_paused,
        uptime_seconds=uptime_s,
        server_type="sluice",
        data_parallel_size=1,
        max_num_seqs=stats.max_running,
        constrained_decoding_start="first_token",
    )


def loads_message(stats: EngineStats, dp_rank: int | None) -> engine_pb2.GetLoadsResponse:
    """Return the load of a model's engine: that of rank 0, which is the only one."""
    loads = [_load(stats)] if not dp_rank else []
    return engine_pb2.GetLoadsResponse(
        timestamp=datetime.now(UTC).isoformat(), version=installed_version(), dp_rank_count=len(loads), loads=loads
    )


def _load(stats: EngineStats) -> engine_pb2.SchedulerLoad:
    step_s = stats.decode_step_s + stats.decode_row_s * max(stats.num_running - 1, 0)
    return engine_pb2.SchedulerLoad(
        num_running_reqs=stats.num_running,
        num_waiting_reqs=stats.num_waiting,
        num_total_reqs=stats.num_running + stats.num_waiting,
        token_usage=_share(stats.num_blocks - stats.num_free_blocks, stats.num_blocks),
        gen_throughput=stats.num_running / step_s if step_s else 0.0,
        cache_hit_rate=_share(stats.num_prefix_hit_tokens, stats.num_prefix_query_tokens),
        utilization=_share(stats.num_running, stats.max_running),
        max_running_requests=stats.max_running,
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def tokenizer_chunks(archive: bytes) -> Iterator[engine_pb2.GetTokenizerChunk]:
    """Yield an archive in pieces; the last one has the digest of all."""
    for begin in range(0, len(archive), _CHUNK_BYTES):
        end = begin + _CHUNK_BYTES
        digest = hashlib.sha256(archive).hexdigest() if end >= len(archive) else ""
        yield engine_pb2.GetTokenizerChunk(data=archive[begin:end], sha256=digest)
