"""The field `options` of all requests: sampling parameters, and settings of the model's runner.

The operator configures the runner, so those settings have no effect.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta
from sluice.v1 import chat_pb2, sampling_pb2

from gateway.dialects.seam.caller_name import dotted, renamed
from gateway.dialects.seam.contract_copy import copy_fields
from gateway.dialects.seam.contract_limit import check_length, check_values, put
from gateway.dialects.seam.failure import Failure, Reason

_WHOLE_TEXT: Final = -1  # the value of repeat_last_n for all tokens
_SAMPLING: Final = {  # the names of options → those of the contract, for numbers that need no conversion
    "temperature": "temperature",
    "top_p": "top_p",
    "min_p": "min_p",
    "typical_p": "typical_p",
    "repeat_penalty": "repetition_penalty",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
OPTION_NAMES: Final = {  # a field's path, or its first parts, in the contract's requests → in the client's body
    "sampling": "options",
    **{f"sampling.{name}": f"options.{option}" for option, name in _SAMPLING.items()},
    "stopping": "options",
    "stopping.max_tokens": "options.num_predict",
}


class OllamaOptions(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The options. Negative values of `num_predict` and `seed` are equivalent to none, -1 of `top_k` to 0.

    `logit_bias` and `reasoning_effort` are not Ollama's: Open WebUI sends them for its models, too.
    """

    num_predict: Annotated[int, Meta(ge=-2)] | None = None
    temperature: float | None = None
    top_k: Annotated[int, Meta(ge=-1)] | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical_p: float | None = None
    seed: int | None = None
    stop: list[str] | None = None
    repeat_penalty: float | None = None
    repeat_last_n: Annotated[int, Meta(ge=-1)] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[int, float] | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    mirostat: int | None = None
    mirostat_tau: float | None = None
    mirostat_eta: float | None = None
    tfs_z: float | None = None
    penalize_newline: bool | None = None
    num_ctx: int | None = None
    num_keep: int | None = None
    num_batch: int | None = None
    num_gpu: int | None = None
    main_gpu: int | None = None
    num_thread: int | None = None
    numa: bool | None = None
    low_vram: bool | None = None
    f16_kv: bool | None = None
    logits_all: bool | None = None
    vocab_only: bool | None = None
    embedding_only: bool | None = None
    use_mmap: bool | None = None
    use_mlock: bool | None = None

    def set_parameters(self, sampling: sampling_pb2.SamplingParams, stopping: sampling_pb2.StopParams) -> None:
        """Set the contract's parameters. Raise Failure for values that are not supported."""
        self._check()
        self._put(sampling, stopping)

    def check_range(self) -> None:
        """Raise Failure for values out of range, where options have no other effect."""
        request = chat_pb2.ChatRequest()
        self._put(request.sampling, request.stopping)
        check_values(request, lambda path: renamed(dotted(path), OPTION_NAMES))

    def _put(self, sampling: sampling_pb2.SamplingParams, stopping: sampling_pb2.StopParams) -> None:
        for name, field in _SAMPLING.items():
            value = getattr(self, name)
            if value is not None:
                setattr(sampling, field, value)
        copy_fields(self, sampling, "options.", but={*_SAMPLING, "top_k", "seed"})
        if self.top_k is not None:
            put(sampling, "top_k", max(self.top_k, 0), "options.top_k")
        if self.seed is not None and self.seed >= 0:
            put(sampling, "seed", self.seed, "options.seed")
        if self.num_predict is not None and self.num_predict > 0:
            put(stopping, "max_tokens", self.num_predict, "options.num_predict")
        check_length(sampling_pb2.StopParams, "stop", self.stop or (), "options.stop")
        stopping.stop.extend(self.stop or ())

    def _check(self) -> None:
        """Raise Failure for options that change the text in a way that this server doesn't have."""
        if self.mirostat:
            raise _unsupported("mirostat", "must be 0: there is no Mirostat sampling; use top_p, min_p or typical_p")
        if self.tfs_z not in {None, 1}:
            raise _unsupported("tfs_z", "must be 1: there is no tail-free sampling; use min_p or typical_p")
        if self.repeat_last_n not in {None, _WHOLE_TEXT} and self._penalizes():
            raise _unsupported("repeat_last_n", "must be -1: penalties count all tokens")

    def _penalizes(self) -> bool:
        return self.repeat_penalty not in {None, 1} or bool(self.presence_penalty) or bool(self.frequency_penalty)


def _unsupported(name: str, text: str) -> Failure:
    return Failure.of_field(f"options.{name}", text, Reason.UNSUPPORTED_FIELD)
