"""The engine's settings: limits of its batch, cache and queue, and how it computes.

`build` replaces what is None by what the model and the memory allow.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Literal

from service.engine.watermark import Watermark

BLOCK_SIZE = 16  # tokens a cache block, where neither a setting nor the device says another

# The other fields are numbers of things.
_OTHER_KINDS = {
    "backend",
    "quantization",
    "kv_cache_dtype",
    "worker",
    "prefix_caching",
    "watermark",
    "max_slowdown",
    "max_decode_slowdown",
    "max_queue_wait_s",
    "output_interval_s",
    "speculation",
    "end_in_time",
    "draft_model",
    "draft_quantization",
    "device_memory",
    "batch_invariant",
}

_NEEDS = {"draft_model": "speculation", "draft_quantization": "draft_model"}
_ABOVE = {"max_slowdown": 1, "max_decode_slowdown": 1, "max_queue_wait_s": 0}


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Settings of one engine. Raises ValueError with the field's name for a value that can't work.

    `backend` is a name of the table of backends, or "auto" for the first of them that can serve the model;
    encoders have none. `quantization` None keeps the weights' own numbers; with int8 or int4 they are rounded as they
    are loaded, which only some backends can. `kv_cache_dtype` is the type of cached keys and values: "auto" is what the
    model computes in; with half of float32's bytes twice the tokens fit, and attention over long contexts reads half.
    `block_size` None is 16, and 256 on CUDA devices, whose attention kernel reads such pages.
    `num_blocks` None is as many as the memory holds, `max_model_len` None the model's own context length,
    `num_threads`, of each process, None as many as suit its size, `output_interval_s` None 0.02 where the CPU computes,
    which has the sending to do as well, and 0 elsewhere. `max_decode_slowdown` None lets as many sequences run as there
    are places.
    `prefix_caching` False keeps requests from sharing cached prompts; the choices of one request share theirs all the
    same. `draft_model`, a folder or a hub id, is a cheaper one of the same vocabulary, whose guesses take the place of
    those from a text's own past; `draft_quantization` is for its weights.
    `max_adapters` None is as many as the service's settings name for the model, and 4 more where callers may load some.
    """

    backend: str = "auto"
    quantization: Literal["int8", "int4"] | None = None
    kv_cache_dtype: Literal["auto", "bfloat16", "float16"] = "auto"
    max_batch_tokens: int = 2048  # tokens computed in one step, of all sequences together
    max_batch_sequences: int = 64  # sequences that hold cache blocks at a time
    max_prefill_chunk: int = 512  # prompt tokens in a step that also decodes, at most
    max_slowdown: float = 2.5  # times a step's time that only decodes, on average, where it prefills too; above 1
    output_interval_s: float | None = None  # tokens of a stream that come faster leave together; 0: after each step
    max_decode_slowdown: float | None = None  # times a single sequence's step that one of several takes; above 1
    worker: Literal["thread", "process"] = "process"  # where it computes: of the service's process, or of its own
    block_size: int | None = None  # tokens a cache block
    num_blocks: int | None = None
    max_model_len: int | None = None  # tokens of a prompt and its answer together
    max_queue_requests: int = 256  # requests that wait for their first step
    max_queue_tokens: int = 262_144  # prompt tokens of those requests
    max_queue_wait_s: float = 2.0  # time until a request's first step, as expected when it is let in; above 0
    prefix_caching: bool = True
    speculation: bool = True  # compute guesses of the next tokens ahead, where that changes no answer
    end_in_time: bool = True  # constrained answers end within their limit of tokens, and so match what was asked for
    draft_model: str | None = None
    draft_quantization: Literal["int8", "int4"] | None = None
    num_threads: int | None = None
    device_memory: float = 0.9  # part of an accelerator that all it holds may take; above 0, at most 1
    batch_invariant: bool = False  # refuse a backend whose answers depend on what else is in a step
    tensor_parallel: int = 1  # processes that share a model's weights and cache, each on an accelerator of its own
    max_adapters: int | None = None  # that are held at a time; their memory is kept free
    max_adapter_rank: int = 64
    watermark: Watermark = field(default_factory=Watermark)  # of the requests that ask for one

    def __post_init__(self) -> None:
        self._check_numbers()
        for name, needed in _NEEDS.items():
            if getattr(self, name) and not getattr(self, needed):
                raise ValueError(f"{name} needs {needed}")
        if not 0 < self.device_memory <= 1:
            raise ValueError(f"device_memory must be above 0 and at most 1, not {self.device_memory!r}")
        if self.tensor_parallel > 1 and self.worker != "process":
            raise ValueError(f"tensor_parallel {self.tensor_parallel} needs worker process, not {self.worker}")
        if self.output_interval_s is not None and not 0 <= self.output_interval_s <= 1:
            raise ValueError(f"output_interval_s must be between 0 and 1, not {self.output_interval_s!r}")
        if self.max_batch_sequences > self.max_batch_tokens:
            raise ValueError(
                f"max_batch_sequences ({self.max_batch_sequences}) must not exceed max_batch_tokens "
                f"({self.max_batch_tokens}): every running sequence decodes in every step"
            )
        if self.max_model_len is not None and self.max_model_len < 2:
            raise ValueError("max_model_len must be at least 2: one token of prompt and one of answer")

    @property
    def tokens_per_block(self) -> int:
        """`block_size`, or the usual one."""
        return self.block_size or BLOCK_SIZE

    def _check_numbers(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name == "max_adapters" and value == 0:
                continue
            if each.name in _OTHER_KINDS or (value is None and each.default is None):
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{each.name} must be a whole number of at least 1, not {value!r}")
        for name, bound in _ABOVE.items():
            value = getattr(self, name)
            if value is not None and not value > bound:
                raise ValueError(f"{name} must be above {bound}, not {value!r}")
