"""An encoder: a transformers model and the layers that compute a vector from its states.

All architectures of AutoModel that take padded token ids and return one state per token are supported.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import Embedding
from torch.nn.functional import normalize
from transformers import AutoModel
from transformers.utils.logging import disable_progress_bar

from service.engine.models.checkpoint.checkpoint import weight_files
from service.engine.models.checkpoint.encoders.sentence_files import SentenceFiles
from service.engine.models.checkpoint.packed.packed_checkpoint import reject_packed
from service.engine.models.encoders.dense import load_dense
from service.engine.models.encoders.pooling import pool
from service.generation.errors import ModelLoadError

UNUSED = ("pooler.",)  # an optional layer that embeddings do not use

_log = logging.getLogger(__name__)


class Encoder:
    """A model that computes the vectors of texts, one padded batch at a time."""

    def __init__(self, model: Any, files: SentenceFiles) -> None:
        """Encode one token as a test. Raise ModelLoadError if the result is not a state."""
        self._model = model.eval()
        self._files = files
        self._pad_id = model.config.pad_token_id or 0
        self.device: torch.device = model.device
        self._dense = [load_dense(each, self.device) for each in files.dense]
        name = model.config.model_type
        try:
            trial = torch.tensor([[trial_token(model.config)]])
            self.num_dimensions = self.encode(trial, torch.tensor([1])).shape[1]
        except Exception as error:  # any error of the model's code
            raise ModelLoadError(f"the architecture {name} is not supported: a trial step failed: {error}") from error

    @property
    def max_positions(self) -> int | None:
        """The number of tokens that the model has positions for, or None if its positions are unlimited."""
        return max_positions_of(self._model)

    @torch.inference_mode()
    def encode(self, token_ids: Tensor, lengths: Tensor, second_starts: Tensor | None = None) -> Tensor:  # noqa: ARG002  it reads no pairs
        """Return float32 vectors [texts, dimensions] of int64 `token_ids` [texts, longest], padded at their ends."""
        token_ids, lengths = token_ids.to(self.device), lengths.to(self.device)
        is_token = torch.arange(token_ids.shape[1], device=self.device) < lengths[:, None]
        states = self._model(
            input_ids=token_ids.masked_fill(~is_token, self._pad_id), attention_mask=is_token.long()
        ).last_hidden_state
        vectors = pool(states, lengths, self._files.pooling)
        for layer in self._dense:
            vectors = layer(vectors)
        return normalize(vectors, dim=1) if self._files.normalises else vectors


def load_encoder(config: Any, files: SentenceFiles, dtype: str, device: str) -> Encoder:
    """Load the model of `files.body`, described by `config`. Raise ModelLoadError if it is not supported."""
    model = from_folder(AutoModel, files.body, config, dtype)
    if hasattr(model, "pooler"):
        model.pooler = None
    return Encoder(model.to(device), files)


def from_folder(kind: Any, folder: Path, config: Any, dtype: str) -> Any:
    """Load a model with one of transformers' auto classes. Raise ModelLoadError if that fails."""
    reject_unsupported(folder, config)
    weight_files(folder)
    disable_progress_bar()  # type: ignore[no-untyped-call]  # the load shows its own progress
    config.use_cache = False  # decoders need no cache, because texts are not continued
    try:
        loaded: Any = kind.from_pretrained(
            folder, config=config, dtype=getattr(torch, dtype), output_loading_info=True, use_safetensors=True
        )
        model, report = loaded
    except Exception as error:  # any error means that the model cannot be loaded
        raise ModelLoadError(f"{folder} can't be loaded: {error}") from error
    unused = UNUSED if kind is AutoModel else ()
    for fault in ("missing_keys", "mismatched_keys"):
        if names := sorted(name for name in map(str, report[fault]) if not name.startswith(unused)):
            raise ModelLoadError(f"{folder}: {fault.replace('_keys', '')} tensors: {names[:5]}")
    if report["unexpected_keys"]:  # such as a masked language modeling head
        _log.info("%s: unused tensors: %s", folder, ", ".join(sorted(report["unexpected_keys"])[:5]))
    return model


def reject_unsupported(folder: Path, config: Any) -> None:
    """Raise ModelLoadError for an encoder whose configuration is not supported."""
    reject_packed(folder)
    if getattr(config, "is_encoder_decoder", False):
        raise ModelLoadError(f"{folder}: encoder-decoder models are not supported")


def max_positions_of(model: Any) -> int | None:
    """Return the number of tokens that a model has positions for, or None if its positions are unlimited."""
    longest: int | None = getattr(model.config, "max_position_embeddings", None)
    for name, module in model.named_modules():
        # The RoBERTa family numbers positions from the one after the padding index.
        if name.endswith("position_embeddings") and isinstance(module, Embedding):
            return longest if module.padding_idx is None else module.num_embeddings - module.padding_idx - 1
    return longest


def trial_token(config: Any) -> int:
    """Return the id of a token that is not padding."""
    return 0 if config.pad_token_id else 1
