"""From an encoder's settings to an encoder that can be served.

Owns the joining of its engine, its pipeline and its description. Runs on a worker thread at start; importing it imports
torch.
"""

from __future__ import annotations

from pathlib import Path

from google.protobuf import timestamp_pb2
from sluice.v1 import model_pb2

from service.config import ModelSettings
from service.engine.build_encoder import BuiltEncoder, build_encoder
from service.engine.engine import StepObserver
from service.generation.errors import ModelLoadError
from service.pipeline.embedding import EmbeddingPipeline
from service.servicers.catalog import ServedEncoder


def load_encoder(settings: ModelSettings, folder: Path, observer: StepObserver) -> ServedEncoder:
    """Load the encoder of `folder`; its engine is not yet started.

    `settings` has every value filled in. Raises ModelLoadError.
    """
    assert settings.dtype and settings.device and settings.engine  # noqa: S101, PT018
    built = build_encoder(
        folder, settings.engine, compute_dtype=settings.dtype, device=settings.device, observer=observer
    )
    try:
        embeddings = EmbeddingPipeline(
            built.tokenizer, built.info.max_model_len, built.num_dimensions, lowers_case=built.lowers_case
        )
    except ValueError as error:
        raise ModelLoadError(f"{folder}: {error}") from error
    return ServedEncoder(_description(settings, built), built.engine, embeddings, built.tokenizer)


def _description(settings: ModelSettings, built: BuiltEncoder) -> model_pb2.Model:
    created = timestamp_pb2.Timestamp()
    created.GetCurrentTime()
    return model_pb2.Model(
        name=settings.name,
        version=settings.version,
        created=created,
        tasks=[model_pb2.TASK_EMBEDDING],
        architecture=built.info.architecture,
        max_model_len=built.info.max_model_len,
        vocab_size=built.info.vocab_size,
        num_parameters=built.info.num_parameters,
        dtype=built.info.dtype,
        system_fingerprint=built.info.fingerprint,
        embedding_dimensions=built.num_dimensions,
    )
