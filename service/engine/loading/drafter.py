"""Load a draft model for speculative decoding."""

from __future__ import annotations

from collections import abc
from dataclasses import replace
from typing import Any

from service.engine.core.drafts.drafter import Drafter
from service.engine.interface.config import EngineConfig
from service.engine.loading.model_folder import find_folder
from service.engine.loading.model_source import choose_max_model_len
from service.engine.models.checkpoint.compute_dtype import choose_compute_dtype
from service.engine.models.checkpoint.model_config import read_model_config
from service.engine.models.checkpoint.text_part import open_checkpoint, text_config
from service.engine.models.interface.backend import Backend, KeepsSequenceState
from service.engine.models.interface.model_spec import ModelSpec
from service.engine.models.selection.backends import choose_backend
from service.engine.runner.model_drafter import Draw, ModelDrafter
from service.engine.tokens.read_table import read_token_table
from service.engine.tokens.token_table import TokenTable
from service.generation.errors import ModelLoadError


class DraftModel:
    """A loaded draft model without a cache."""

    def __init__(self, backend: Backend[Any], max_positions: int) -> None:
        self._backend = backend
        self._max_positions = max_positions

    def bytes_per_block(self, block_size: int) -> int:
        """Return the cache bytes for the keys and values of `block_size` tokens."""
        return self._backend.bytes_per_block(block_size)

    def drafter(self, draw: Draw[Any], config: EngineConfig) -> Drafter:
        """Return a drafter, with as many cache blocks as the target model has."""
        assert config.num_blocks is not None  # noqa: S101  it is resolved
        return ModelDrafter(
            self._backend,
            draw,
            config.num_blocks,
            config.tokens_per_block,
            max_positions=self._max_positions,
            num_threads=config.num_threads,
        )


def load_draft_model(model: str, config: EngineConfig, spec: ModelSpec, tokens: TokenTable) -> DraftModel:
    """Load `model`, a folder or a hub id, to draft for the model of `spec`. Raise ModelLoadError if that fails."""
    folder = find_folder(model)
    model_config = read_model_config(folder)
    own = read_token_table(folder)
    if text_config(model_config).vocab_size != text_config(spec.config).vocab_size or _spelling(own) != _spelling(
        tokens
    ):
        raise ModelLoadError(f"engine.draft_model {folder}: its vocabulary is not that of {spec.checkpoint.folder}")
    checkpoint = open_checkpoint(folder, model_config)
    draft = replace(
        spec,
        config=model_config,
        checkpoint=checkpoint,
        dtype=choose_compute_dtype("auto", checkpoint.dtype, spec.device),
        max_positions=choose_max_model_len(model_config, None, folder),
        quantization=config.draft_quantization,
        max_adapters=0,  # drafts ignore adapters
    )
    backend = choose_backend(draft, "native").load(draft)
    if isinstance(backend, KeepsSequenceState):
        raise ModelLoadError(f"engine.draft_model {folder}: a model with recurrent layers can't draft")
    return DraftModel(backend, draft.max_positions)


def _spelling(tokens: TokenTable) -> abc.Sequence[bytes]:
    """Return the bytes of each token."""
    return [tokens.token_bytes(token_id) for token_id in range(tokens.vocab_size)]
