"""Load an encoder or a cross-encoder, and derive its limits from its folder."""

from __future__ import annotations

from collections import abc
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from service.engine.core.encoder_core import EncoderCore, EncoderRunner
from service.engine.interface.config import EngineConfig
from service.engine.interface.description import ComputeDtype, CrossEncoderDescription, EncoderDescription, ModelInfo
from service.engine.link.engine_spec import BuiltCore
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
from service.engine.models.checkpoint.model_config import read_model_config, read_transformers_config
from service.engine.models.checkpoint.packed.packed_checkpoint import reject_packed
from service.engine.models.checkpoint.progress import load_progress
from service.engine.models.encoders.bert import load_bert
from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.errors import ModelLoadError

# MiniLM is fastest at 1024. At 256 it computes 8 % fewer tokens per second, and at 512 from 2 to 5 % fewer (one core,
# 12 to 200 tokens per text).
_CPU_BATCH_TOKENS = 512


class LoadedEncoder(EncoderRunner, Protocol):
    """A model that computes vectors; a cross-encoder's vectors are scores."""

    @property
    def num_dimensions(self) -> int:
        """The number of dimensions of each vector."""

    @property
    def max_positions(self) -> int | None:
        """The number of tokens that the model has positions for, or None if its positions are unlimited."""


@dataclass(frozen=True, slots=True)
class _EncoderFolder:
    """A model's folder, the folder of its transformer and tokenizer, and the checkpoints of its extra layers."""

    folder: Path
    body: Path
    max_length: int | None  # in tokens, as configured in the folder
    layers: abc.Sequence[Checkpoint] = ()


@dataclass(frozen=True, slots=True)
class _Source:
    """The inputs of a model's loader."""

    config: Any  # the result of `read_model_config`
    checkpoint: Checkpoint
    dtype: str
    device: str
    num_threads: int


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A loaded model and its limits."""

    runner: LoadedEncoder
    config: EngineConfig
    info: ModelInfo

    def build(self, description: EncoderDescription | CrossEncoderDescription) -> BuiltCore:
        """Return the core that runs the model."""
        return BuiltCore(EncoderCore(self.runner, self.config.max_batch_tokens), description)


def load_encoder(folder: Path, config: EngineConfig, *, compute_dtype: ComputeDtype, device: str) -> BuiltCore:
    """Return a core that embeds with the encoder of `folder`. See `engines.build_encoder`."""
    files = SentenceFiles.read(folder)

    def load(source: _Source) -> LoadedEncoder:
        is_small = (source.device, source.dtype, source.num_threads) == ("cpu", "float32", 1) and not files.dense
        bert = load_bert(source.config, source.checkpoint, files) if is_small else None
        return bert or _load_vectors(files, source)

    dense = [Checkpoint(each.folder) for each in files.dense]
    parts = _EncoderFolder(folder, files.body, files.max_seq_length, dense)
    loaded = _load(parts, config, compute_dtype, device, load)
    return loaded.build(
        EncoderDescription(
            config=loaded.config,
            info=loaded.info,
            body=files.body,
            num_dimensions=loaded.runner.num_dimensions,
            lowers_case=files.lowers_case,
            prompts=files.prompts,
            default_prompt=files.default_prompt,
            dimensions=files.dimensions,
        )
    )


def load_cross_encoder(folder: Path, config: EngineConfig, *, compute_dtype: ComputeDtype, device: str) -> BuiltCore:
    """Return a core that scores pairs with the cross-encoder of `folder`. See `engines.build_cross_encoder`."""
    files = PairFiles.read(folder)
    parts = _EncoderFolder(folder, files.body, files.max_length)
    loaded = _load(parts, config, compute_dtype, device, lambda source: _load_scores(files, source))
    return loaded.build(CrossEncoderDescription(loaded.config, loaded.info, files.body, files.activation))


def _load(
    parts: _EncoderFolder,
    config: EngineConfig,
    compute_dtype: ComputeDtype,
    device: str,
    load: abc.Callable[[_Source], LoadedEncoder],
) -> _Loaded:
    folder, body, layers = parts.folder, parts.body, parts.layers
    if config.quantization:
        raise ModelLoadError(f"{folder}: engine.quantization {config.quantization} is not supported for encoders")
    reject_packed(body)
    target = choose_device(device)
    model_config = read_model_config(body)
    tokenizer = FastTokenizer.from_folder(body)
    if tokenizer.vocab_size > model_config.vocab_size:
        raise ModelLoadError(
            f"{body}: the tokenizer has {tokenizer.vocab_size} ids, the model only {model_config.vocab_size}"
        )
    checkpoint = Checkpoint(body)
    config_files = sorted({*folder.glob("*.json"), *folder.glob("*/config.json")})
    dtype = choose_compute_dtype(compute_dtype, checkpoint.dtype, target)
    num_threads = config.num_threads or choose_num_threads(checkpoint, target)
    with load_progress(str(folder), checkpoint.num_bytes) as on_read:
        checkpoint.on_read = on_read
        runner = load(_Source(model_config, checkpoint, dtype, target, num_threads))
    max_model_len = choose_max_text_len(body, parts.max_length, runner.max_positions, config.max_model_len)
    resolved = replace(
        config,
        max_batch_tokens=_max_batch_tokens(config, target),
        max_model_len=max_model_len,
        num_threads=num_threads,
    )
    info = ModelInfo(
        architecture=architecture_of(model_config),
        max_model_len=max_model_len,
        vocab_size=model_config.vocab_size,
        dtype=dtype,
        device=target,
        num_parameters=checkpoint.num_parameters + sum(layer.num_parameters for layer in layers),
        is_invariant=False,
        fingerprint=fingerprint(checkpoint, dtype, *config_files, backend=" ".join(layer.digest() for layer in layers)),
    )
    return _Loaded(runner, resolved, info)


def _load_vectors(files: SentenceFiles, source: _Source) -> LoadedEncoder:
    # Imported here, because these modules import torch and transformers' models.
    from service.engine.models.encoders.encoder import load_encoder  # noqa: PLC0415
    from service.engine.runner.encoder_runner import BatchEncoder  # noqa: PLC0415

    config = read_transformers_config(files.body)
    return BatchEncoder(load_encoder(config, files, source.dtype, source.device), num_threads=source.num_threads)


def _load_scores(files: PairFiles, source: _Source) -> LoadedEncoder:
    # Imported here, because these modules import torch and transformers' models.
    from service.engine.models.encoders.cross_encoder import load_cross_encoder  # noqa: PLC0415
    from service.engine.runner.encoder_runner import BatchEncoder  # noqa: PLC0415

    config = read_transformers_config(files.body)
    encoder = load_cross_encoder(config, files, source.dtype, source.device)
    return BatchEncoder(encoder, num_threads=source.num_threads)


def _max_batch_tokens(config: EngineConfig, device: str) -> int:
    """Return the batch limit. On a CPU it is just large enough to be efficient, because requests wait for a batch."""
    if device != "cpu":
        return config.max_batch_tokens
    return min(config.max_batch_tokens, max(_CPU_BATCH_TOKENS, config.max_batch_sequences))
