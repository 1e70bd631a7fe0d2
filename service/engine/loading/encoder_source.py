"""What an encoder's files and settings say before its weights are read."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from service.engine.interface.config import EngineConfig
from service.engine.interface.description import ComputeDtype, ModelInfo
from service.engine.loading.model_source import (
    architecture_of,
    choose_device,
    choose_max_text_len,
    choose_num_threads,
    fingerprint,
)
from service.engine.models.checkpoint.checkpoint import Checkpoint
from service.engine.models.checkpoint.compute_dtype import choose_compute_dtype
from service.engine.models.checkpoint.encoders.pair_files import PairFiles
from service.engine.models.checkpoint.encoders.sentence_files import SentenceFiles
from service.engine.models.checkpoint.gguf.gguf_checkpoint import GgufCheckpoint, open_gguf
from service.engine.models.checkpoint.model_config import read_model_config
from service.engine.models.checkpoint.packed.packed_checkpoint import reject_packed
from service.engine.models.native.backend import native_arithmetic
from service.engine.models.native.encoder import native_encoder_block_type, native_encoder_unsupported_reason
from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.errors import ModelLoadError

_log = logging.getLogger(__name__)

# Tokens of a batch on a CPU. The native step computes as many tokens per second at 256 as at 1024, within 3 % (BERT of
# base size, one core, 20 and 200 tokens per text). With torch's modules MiniLM computes 8 % fewer at 256 than at 1024,
# and at 512 from 2 to 5 % fewer.
_NATIVE_BATCH_TOKENS, _MODULES_BATCH_TOKENS = 256, 512


@dataclass(frozen=True, slots=True)
class EncoderSource:
    """The inputs of the loader of an encoder or a cross-encoder."""

    folder: Path
    files: SentenceFiles | PairFiles
    engine: EngineConfig  # as configured
    model_config: Any  # the result of `read_model_config`
    checkpoint: Checkpoint
    dtype: str
    device: str
    is_native: bool  # computed by the native step, not by modules

    @classmethod
    def read(
        cls, folder: Path, files: SentenceFiles | PairFiles, engine: EngineConfig, dtype: ComputeDtype, device: str
    ) -> Self:
        """Read the files of `folder` but for the weights. Raise ModelLoadError if one is missing or unusable."""
        body = files.body
        reject_packed(body)
        target = choose_device(device)
        model_config = read_model_config(body)
        tokenizer = FastTokenizer.from_folder(body)
        if tokenizer.vocab_size > model_config.vocab_size:
            raise ModelLoadError(
                f"{body}: the tokenizer has {tokenizer.vocab_size} ids, the model only {model_config.vocab_size}"
            )
        checkpoint = open_gguf(body) or Checkpoint(body)
        chosen = choose_compute_dtype(dtype, checkpoint.dtype, target)
        reason = native_encoder_unsupported_reason(
            model_config, chosen, target, files if isinstance(files, SentenceFiles) else None
        )
        if reason is not None:
            _log.info("%s: not supported by the native step: %s", folder, reason)
            if isinstance(checkpoint, GgufCheckpoint):
                raise ModelLoadError(f"{folder}: GGUF files that embed are computed by the native step only: {reason}")
        reject_unsupported_quantization(folder, engine.quantization, reason)
        return cls(folder, files, engine, model_config, checkpoint, chosen, target, reason is None)

    @property
    def weight_type(self) -> str:
        """The type in which weights are computed that aren't in blocks."""
        return self.engine.quantization or self.dtype

    @property
    def stored_type(self) -> str:
        """The type of the weights in memory, which is that of most blocks of a file whose blocks are multiplied."""
        if self.engine.quantization or not self.is_native:
            return self.weight_type
        return native_encoder_block_type(self.model_config, self.checkpoint) or self.dtype

    @property
    def num_threads(self) -> int:
        """The configured number of threads, or one that suits the model and the machine."""
        return self.engine.num_threads or choose_num_threads(self.checkpoint, self.device)

    def limits(self, max_positions: int | None) -> tuple[EngineConfig, ModelInfo]:
        """Return the engine's configuration with an encoder's limits, and the facts that clients see.

        `max_positions` is the number of tokens that the model has positions for; None: unlimited.
        """
        files = self.files
        max_length = files.max_length if isinstance(files, PairFiles) else files.max_seq_length
        max_model_len = choose_max_text_len(files.body, max_length, max_positions, self.engine.max_model_len)
        config = replace(
            self.engine,
            max_batch_tokens=_max_batch_tokens(self.engine, self.device, is_native=self.is_native),
            max_model_len=max_model_len,
            num_threads=self.num_threads,
        )
        return config, self._info(max_model_len)

    def _info(self, max_model_len: int) -> ModelInfo:
        dense = self.files.dense if isinstance(self.files, SentenceFiles) else ()
        layers = [Checkpoint(each.folder) for each in dense]
        config_files = sorted({*self.folder.glob("*.json"), *self.folder.glob("*/config.json")})
        described = [*(layer.digest() for layer in layers), *([native_arithmetic()] if self.is_native else [])]
        return ModelInfo(
            architecture=architecture_of(self.model_config),
            max_model_len=max_model_len,
            vocab_size=self.model_config.vocab_size,
            dtype=self.stored_type,
            device=self.device,
            num_parameters=self.checkpoint.num_parameters + sum(layer.num_parameters for layer in layers),
            is_invariant=self.is_native,
            fingerprint=fingerprint(self.checkpoint, self.stored_type, *config_files, backend=" ".join(described)),
        )


def reject_unsupported_quantization(folder: Path, quantization: str | None, reason: str | None) -> None:
    """Raise ModelLoadError for a quantized encoder that the native step does not support for `reason`."""
    if quantization and reason is not None:
        raise ModelLoadError(
            f"{folder}: engine.quantization {quantization} is not supported for this encoder: {reason}"
        )


def _max_batch_tokens(config: EngineConfig, device: str, *, is_native: bool) -> int:
    """Return the batch limit. On a CPU it is just large enough to be efficient, because requests wait for a batch."""
    if device != "cpu":
        return config.max_batch_tokens
    enough = _NATIVE_BATCH_TOKENS if is_native else _MODULES_BATCH_TOKENS
    return min(config.max_batch_tokens, max(enough, config.max_batch_sequences))
