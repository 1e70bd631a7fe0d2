"""The engine's settings: the limits of its batch, cache and queue, and its compute options.

Loading the model replaces None by values that fit the model and the memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from process.settings.setting import check_ranges, setting
from service.engine.interface.cache_group import ONE_GROUP, CacheGroup, max_blocks
from service.engine.tokens.watermark import Watermark

BLOCK_SIZE = 16  # tokens of a cache block, unless a setting or the device gives another size

_NEEDS = {"draft_model": "speculation", "draft_quantization": "draft_model", "cache_folder": "prefix_caching"}


def _field(default: Any, description: str, unit: str | None = None, **bounds: float) -> Any:
    return field(default=default, metadata=setting(description, unit, **bounds))


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """The settings of one engine. Raise ValueError with the field's name for an invalid value."""

    backend: str = _field(
        "auto",
        "backend that computes the model: native, torch or transformers; auto: the first of these that supports it; "
        "ignored for encoders",
    )
    quantization: Literal["int8", "int4"] | None = _field(
        None, "type that weights are rounded to while they are loaded, if the backend supports it; null: not rounded"
    )
    kv_cache_dtype: Literal["auto", "bfloat16", "float16", "int8"] = _field(
        "auto",
        "type of cached keys and values, on CPUs, if the backend supports it; auto: the type that the model computes "
        "in. A type of half the size holds twice the tokens. int8 has a scale for each 32 numbers of a key and one for "
        "a head's value, and excludes latents. The setting applies to the draft model too, and is ignored for encoders",
    )
    max_batch_tokens: int = _field(2048, "tokens computed in one step, over all sequences", "tokens", ge=1)
    max_batch_sequences: int = _field(
        64, "sequences that hold cache blocks at the same time; at most max_batch_tokens", "sequences", ge=1
    )
    max_prefill_chunk: int = _field(512, "prompt tokens in a step that also decodes", "tokens", ge=1)
    max_slowdown: float = _field(
        2.5,
        "average duration of steps that decode and prefill, as a multiple of steps that only decode; a lower value "
        "makes prefill chunks smaller",
        gt=1,
    )
    output_interval_s: float | None = _field(
        None,
        "tokens of a stream that follow each other faster are sent together; above 32 streams the interval is at least "
        "streams / 1,600 seconds, up to 0.1; 0: every step is sent; null: 0.02 on CPUs, else 0",
        "seconds",
        ge=0,
        le=1,
    )
    max_decode_slowdown: float | None = _field(
        None,
        "largest duration of a decode step in a batch, as a multiple of a step of one sequence; a lower value admits "
        "fewer sequences to the batch; null: no limit",
        gt=1,
    )
    worker: Literal["thread", "process"] = _field(
        "process", "where the engine computes: in a process of its own, or in a thread of the service's process"
    )
    reject_while_suspended: bool = _field(
        True,
        "reject calls and fail health checks as soon as a signal such as SIGSTOP suspends the engine's process; false: "
        "calls wait until it is continued, for example to examine it",
    )
    block_size: int | None = _field(
        None, f"tokens of a cache block; null: {BLOCK_SIZE}, or 256 on CUDA devices", "tokens", ge=1
    )
    num_blocks: int | None = _field(None, "cache blocks; null: as many as the memory holds", "blocks", ge=1)
    max_model_len: int | None = _field(
        None, "tokens of a prompt and its answer together; null: the model's context length", "tokens", ge=2
    )
    max_queue_requests: int = _field(
        256, "requests that wait for their first step; more are rejected", "requests", ge=1
    )
    max_queue_tokens: int = _field(
        262_144, "prompt tokens of the requests that wait; more are rejected", "tokens", ge=1
    )
    max_queue_wait_s: float | None = _field(
        None,
        "expected wait for the first step above which a request is rejected on arrival; null: the time in which the "
        "engine, as measured, computes 16,384 tokens of prompts, at least 2 and at most 30 seconds",
        "seconds",
        gt=0,
    )
    overload_slowdown: float = _field(
        1.75,
        "duration of an answer under overload as a multiple of its duration alone; Envoy's limit of requests in flight "
        "is computed from it",
        ge=1,
    )
    prefix_caching: bool = _field(
        True,
        "share cached prompts between requests with a common prefix; choices of one request always share its prompt",
    )
    cache_folder: Path | None = field(
        default=None,
        metadata=setting(
            "folder in which cached prompts are kept while the engine is stopped; null: after a restart they are "
            "computed again; see docs/features/prompt_cache.md"
        ),
    )
    cache_key_file: Path | None = field(
        default=None,
        metadata=setting(
            "file with the key that encrypts cache_folder, 32 bytes in base64; null: "
            "stored_responses.encryption_key_file, and without that it is not encrypted"
        ),
    )
    cache_folder_bytes: int = _field(4 << 30, "largest size of cache_folder, for all models that use it", "bytes", ge=1)
    speculation: bool = _field(True, "compute drafted tokens ahead of time; answers do not change")
    end_in_time: bool = _field(
        True, "end constrained answers within max_tokens, so that they always match the requested format"
    )
    draft_model: str | None = _field(
        None,
        "folder or hub id of a smaller model with the same vocabulary that drafts tokens; null: drafts are taken from "
        "the sequence's own text",
    )
    draft_quantization: Literal["int8", "int4"] | None = _field(
        None, "type that the draft model's weights are rounded to; null: not rounded"
    )
    num_threads: int | None = _field(
        None,
        "threads that compute, in each process; null: 1 for a small model, otherwise one per physical core",
        "threads",
        ge=1,
    )
    device_memory: float = _field(
        0.9, "fraction of an accelerator's memory for weights, activations and cache together", gt=0, le=1
    )
    batch_invariant: bool = _field(
        False,
        "answers must not depend on what else is in the batch, for which a GPU uses other kernels; backends that can't "
        "promise it are rejected, and the native one always does",
    )
    tensor_parallel: int = _field(
        1, "processes that share the model's weights and cache, each on an accelerator of its own", "processes", ge=1
    )
    max_adapters: int | None = _field(
        None,
        "adapters loaded at the same time, for which memory is reserved; null: as many as the settings name, plus 4 if "
        "adapters_root is set",
        "adapters",
        ge=0,
    )
    max_adapter_rank: int = _field(64, "largest rank of an adapter", ge=1)
    watermark: Watermark = field(
        default_factory=Watermark, metadata=setting("parameters of the watermark of requests that ask for one")
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        for name, needed in _NEEDS.items():
            if getattr(self, name) and not getattr(self, needed):
                raise ValueError(f"{name} needs {needed}")
        if self.tensor_parallel > 1 and self.worker != "process":
            raise ValueError(f"tensor_parallel {self.tensor_parallel} needs engine.worker: process, not {self.worker}")
        if self.max_batch_sequences > self.max_batch_tokens:
            raise ValueError(
                f"max_batch_sequences ({self.max_batch_sequences}) must not exceed max_batch_tokens "
                f"({self.max_batch_tokens}): every running sequence decodes in every step"
            )

    @property
    def tokens_per_block(self) -> int:
        """`block_size`, or its default."""
        return self.block_size or BLOCK_SIZE


def max_sequence_len(config: EngineConfig, groups: Sequence[CacheGroup] = ONE_GROUP) -> int:
    """Return the maximum tokens of a prompt and its answer together. `groups` are the model's cache groups.

    A sequence that has the whole cache must be able to reach its end; otherwise it could neither continue nor be
    helped by preempting others. Raise ValueError if `num_blocks` or `max_model_len` is None.
    """
    if config.num_blocks is None or config.max_model_len is None:
        raise ValueError("num_blocks and max_model_len must be set")
    lengths = range(1, config.max_model_len + 1)
    return bisect_right(
        lengths,
        config.num_blocks,
        key=lambda length: max_blocks(groups, length, config.max_batch_tokens, config.tokens_per_block),
    )
