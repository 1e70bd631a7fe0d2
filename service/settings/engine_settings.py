"""The engine's settings with types and descriptions; unknown names are rejected."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from process.settings.describe import describe
from service.engine.config import EngineConfig
from service.engine.watermark import Watermark

_WATERMARK: Final = {
    "gamma": "part of the vocabulary that is made likelier after each token; above 0 and below 1",
    "delta": "what is added to the logits of these tokens; above 0",
    "key": "secret of 1 to 64 bytes by which texts are told again; the default is known to everybody",
}
_ENGINE: Final = {
    "backend": "what computes the model: native, torch or transformers; auto: the first that can. Encoders have none",
    "quantization": "what weights are rounded to as they are loaded, where the backend can; null: their own numbers",
    "kv_cache_dtype": "type of cached keys and values, of the draft model's too, where the backend can, on CPUs; auto: "
    "what the model computes in. Encoders have none",
    "max_batch_tokens": "tokens computed in one step, of all sequences together",
    "max_batch_sequences": "sequences that hold cache blocks at a time; not more than max_batch_tokens",
    "max_prefill_chunk": "prompt tokens in a step that also decodes",
    "max_slowdown": "how many times as long a step that decodes may take, on average, where it prefills too; above 1",
    "output_interval_s": "tokens of a stream that come faster leave together, in seconds from 0 to 1; of more than 32 "
    "streams every streams / 1,600 seconds, or 0.1; 0: after each step; null: 0.02 where the CPU computes, else 0",
    "max_decode_slowdown": "how many times as long as alone a step may take beside others; above 1; null: no limit",
    "worker": "where the engine computes: in a process of its own, or in a thread of the service's",
    "block_size": "tokens of a cache block; null: 16, and 256 on CUDA devices",
    "num_blocks": "cache blocks; null: as many as the memory holds",
    "max_model_len": "tokens of a prompt and its answer together, at least 2; null: the model's own context length",
    "max_queue_requests": "requests that wait for their first step; more are refused",
    "max_queue_tokens": "prompt tokens of the requests that wait; more are refused",
    "max_queue_wait_s": "expected time to its first step above which a request is refused, in seconds; above 0",
    "prefix_caching": "let requests share the cache of prompts that begin alike",
    "speculation": "compute guesses of the next tokens ahead, which changes no answer",
    "end_in_time": "let constrained answers end within their limit of tokens, so that they match what was asked for",
    "draft_model": "folder or hub id of a cheaper model of the same vocabulary that guesses; null: the text's own past",
    "draft_quantization": "what the draft model's weights are rounded to",
    "num_threads": "threads that compute; null: as many as suit the model's size",
    "device_memory": "part of an accelerator that weights, steps and cache take together; above 0, at most 1",
    "batch_invariant": "refuse models whose answers would depend on what else is computed; those of native never do",
    "tensor_parallel": "processes that share the model's weights and cache, each on an accelerator of its own",
    "max_adapters": "adapters that are held at a time, for which memory is kept free; null: as many as are named",
    "max_adapter_rank": "largest rank of an adapter",
    "watermark": "the mark of answers whose request asks for one",
}


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class WatermarkSettings(Watermark):
    """The watermark's own parameters, with types checked and unknown names refused. Keep the key a secret."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class EngineSettings(EngineConfig):
    """The engine's own sizes, with types checked and unknown names refused."""

    watermark: WatermarkSettings = field(default_factory=WatermarkSettings)


describe(WatermarkSettings, _WATERMARK)
describe(EngineSettings, _ENGINE)
