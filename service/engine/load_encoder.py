"""Loading an encoder, and the sizes that follow from its folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Protocol

from service.engine.config import EngineConfig
from service.engine.description import ComputeDtype, EncoderDescription, ModelInfo
from service.engine.encoder_core import EncoderCore, EncoderRunner
from service.engine.model_source import (
    architecture_of,
    choose_device,
    choose_num_threads,
    fingerprint,
)
from service.engine.models.bert import load_bert
from service.engine.models.checkpoint import Checkpoint
from service.engine.models.compute_dtype import choose_compute_dtype
from service.engine.models.model_config import read_model_config, read_transformers_config
from service.engine.models.progress import load_progress
from service.engine.models.sentence_files import SentenceFiles
from service.engine.recipe import Made
from service.engine.tokenizer import FastTokenizer
from service.generation.errors import ModelLoadError

# At 256 MiniLM computes 8 % fewer tokens a second than at 1024, the best; at 512 from 2 to 5 % (one core, 12 to 200
# tokens a text).
_CPU_BATCH_TOKENS = 512


class LoadedEncoder(EncoderRunner, Protocol):
    """A model that makes vectors."""

    @property
    def num_dimensions(self) -> int:
        """Of each vector."""

    @property
    def max_positions(self) -> int | None:
        """Tokens that it has positions for; None if its positions have no end of their own."""


def load_encoder(folder: Path, config: EngineConfig, *, compute_dtype: ComputeDtype, device: str) -> Made:
    """An engine's side that embeds with the encoder of `folder`, as `engines.build_encoder` says."""
    if config.quantization:
        raise ModelLoadError(f"{folder}: an encoder has no {config.quantization} weights (engine.quantization)")
    target = choose_device(device)
    files = SentenceFiles.read(folder)
    model_config = read_model_config(files.body)
    tokenizer = FastTokenizer.from_folder(files.body)
    if tokenizer.vocab_size > model_config.vocab_size:
        raise ModelLoadError(
            f"{files.body}: the tokenizer has {tokenizer.vocab_size} ids, the model only {model_config.vocab_size}"
        )
    checkpoint = Checkpoint(files.body)
    said = sorted({*folder.glob("*.json"), *folder.glob("*/config.json")})
    dtype = choose_compute_dtype(compute_dtype, checkpoint.dtype, target)
    num_threads = config.num_threads or choose_num_threads(checkpoint, target)
    with load_progress(str(folder), checkpoint.num_bytes) as on_read:
        checkpoint.on_read = on_read
        is_small = (target, dtype, num_threads) == ("cpu", "float32", 1)
        bert = load_bert(model_config, checkpoint, files) if is_small else None
        encoder = bert or _load_modules(files, dtype, target, num_threads)
    max_model_len = _max_model_len(encoder, files, config.max_model_len)
    resolved = replace(
        config,
        max_batch_tokens=_max_batch_tokens(config, target),
        max_model_len=max_model_len,
        num_threads=num_threads,
    )
    description = EncoderDescription(
        config=resolved,
        info=ModelInfo(
            architecture=architecture_of(model_config),
            max_model_len=max_model_len,
            vocab_size=model_config.vocab_size,
            dtype=dtype,
            device=target,
            num_parameters=checkpoint.num_parameters,
            is_invariant=False,
            fingerprint=fingerprint(checkpoint, dtype, *said),
        ),
        body=files.body,
        num_dimensions=encoder.num_dimensions,
        lowers_case=files.lowers_case,
    )
    return Made(EncoderCore(encoder, resolved.max_batch_tokens), description)


def _load_modules(files: SentenceFiles, dtype: str, device: str, num_threads: int) -> LoadedEncoder:
    # Imported late: these need torch and transformers' modelling.
    from service.engine.encoder_runner import BatchEncoder  # noqa: PLC0415
    from service.engine.models.encoder import load_encoder  # noqa: PLC0415

    config = read_transformers_config(files.body)
    return BatchEncoder(load_encoder(config, files, dtype, device), num_threads=num_threads)


def _max_batch_tokens(config: EngineConfig, device: str) -> int:
    """On a CPU as few as keep it busy: whoever comes next waits for the end of the batch."""
    if device != "cpu":
        return config.max_batch_tokens
    return min(config.max_batch_tokens, max(_CPU_BATCH_TOKENS, config.max_batch_sequences))


def _max_model_len(encoder: LoadedEncoder, files: SentenceFiles, wanted: int | None) -> int:
    """`wanted`, or as much as the folder says that the model was made for."""
    limits = [limit for limit in (files.max_seq_length, encoder.max_positions) if limit is not None]
    if not limits:
        raise ModelLoadError(f"{files.body}: neither max_seq_length nor max_position_embeddings is given")
    longest = min(limits)
    if wanted is not None and wanted > longest:
        raise ModelLoadError(f"max_model_len {wanted} exceeds the length that {files.body} takes, {longest}")
    return wanted or longest
