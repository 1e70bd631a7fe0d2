"""The engine's settings: the limits of its batch, cache and queue, and its compute options.

Loading the model replaces None by values that fit the model and the memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Literal

from service.engine.watermark import Watermark

BLOCK_SIZE = 16  # default tokens per cache block, if the device has no own default

# Fields that are not positive integers.
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
    """The settings of one engine. Raise ValueError with the field's name for an invalid value.

    `backend` is the name of a backend, or "auto" for the first backend that supports the model; encoders have none.
    `quantization` None keeps the weights as stored; int8 and int4 quantize them during the load, which only some
    backends support. `kv_cache_dtype` is the type of cached keys and values: "auto" is the model's compute type; a
    16-bit type instead of float32 fits twice the tokens, and attention over long contexts reads half the bytes.
    `block_size` None is 16, or 256 on CUDA devices, whose attention kernel reads pages of that size.
    `num_blocks` None is the number that fits into memory, `max_model_len` None the model's context length,
    `num_threads` None a number per process that suits the model's size. `output_interval_s` None is 0.02 on the CPU,
    which also has to send the output, and 0 elsewhere. With `max_decode_slowdown` None, `max_batch_sequences` is the
    only limit of running sequences.
    `prefix_caching` False prevents requests from sharing cached prompts; the choices of one request still share theirs.
    `draft_model`, a folder or a hub id, is a smaller model with the same vocabulary, whose drafts replace those from
    the text's own past; `draft_quantization` is the quantization of its weights.
    `max_adapters` None is the number in the service's settings for the model, plus 4 if clients may load adapters.
    """

    backend: str = "auto"
    quantization: Literal["int8", "int4"] | None = None
    kv_cache_dtype: Literal["auto", "bfloat16", "float16"] = "auto"
    max_batch_tokens: int = 2048  # tokens computed in one step, of all sequences together
    max_batch_sequences: int = 64  # sequences that hold cache blocks at a time
    max_prefill_chunk: int = 512  # maximum prompt tokens in a step that also decodes
    max_slowdown: float = 2.5  # maximum average time of a step with prefill, relative to a decode step; above 1
    output_interval_s: float | None = None  # tokens generated faster are sent together; 0: send after each step
    max_decode_slowdown: float | None = None  # maximum step time, relative to a single sequence's step; above 1
    worker: Literal["thread", "process"] = "process"  # a thread of the service, or a worker process
    block_size: int | None = None  # tokens per cache block
    num_blocks: int | None = None
    max_model_len: int | None = None  # tokens of a prompt and its answer together
    max_queue_requests: int = 256  # requests queued for their first step
    max_queue_tokens: int = 262_144  # prompt tokens of those requests
    max_queue_wait_s: float = 2.0  # expected time until a request's first step, at admission; above 0
    prefix_caching: bool = True
    speculation: bool = True  # speculative decoding, on backends where it does not change answers
    end_in_time: bool = True  # constrained answers end within their token limit, so that they match their constraint
    draft_model: str | None = None
    draft_quantization: Literal["int8", "int4"] | None = None
    num_threads: int | None = None
    device_memory: float = 0.9  # fraction of an accelerator's memory to use; above 0, at most 1
    batch_invariant: bool = False  # reject backends whose answers depend on the other requests of a step
    tensor_parallel: int = 1  # processes that hold shards of weights and cache, each on its own accelerator
    max_adapters: int | None = None  # loaded at a time; their memory is reserved
    max_adapter_rank: int = 64
    watermark: Watermark = field(default_factory=Watermark)  # for requests with a watermark

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
        """The `block_size`, or its default."""
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
